package ps

import "regexp"

var (
	// 64 hexadecimal digits, as docker, containerd, CRI-O and podman name control
	// groups, alone or in docker-….scope.
	containerID = regexp.MustCompile(`(?:/|/([a-z-]{1,24})-)([0-9a-f]{12})[0-9a-f]{52}(?:\.scope)?(?:[/:\n]|$)`)
	// LXC's and systemd-nspawn's have names.
	containerName = regexp.MustCompile(`/(?:lxc\.payload[./]|lxc/|machine\.slice/(?:machine|systemd-nspawn)[-@])([^/\n]{1,64})`)
)

// containerOf returns the container by the names of control groups; "": the process is not in
// a container, or in one that these names do not identify.
func containerOf(groups string) string {
	if m := containerID.FindStringSubmatch(groups); m != nil {
		if m[1] != "" {
			return m[1] + " " + m[2]
		}
		return m[2]
	}
	if m := containerName.FindStringSubmatch(groups); m != nil {
		return m[1]
	}
	return ""
}
