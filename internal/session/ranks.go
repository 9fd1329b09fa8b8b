package session

import (
	"regexp"
	"strconv"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Variables in which launchers tell a process its place: torchrun's first, then
// those of MPI and of the cluster.
var (
	rankNames = []string{
		"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "MPI_RANKID", "SLURM_PROCID",
	}
	localRankNames = []string{
		"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID",
	}
)

// ranksOf are the ranks that the target shows in its environment; nil: none.
func ranksOf(t *target.Target) (global, local *int) {
	found, err := t.Environ(append(append([]string{}, rankNames...), localRankNames...)...)
	if err != nil {
		return nil, nil
	}
	return rankIn(found, rankNames), rankIn(found, localRankNames)
}

// rankOf is the global rank that the target shows, or else the local one.
func rankOf(t *target.Target) *int {
	global, local := ranksOf(t)
	if global == nil {
		return local
	}
	return global
}

// rankIn takes the first of names that holds a number such as a rank can be.
func rankIn(found map[string]string, names []string) *int {
	const most = 1 << 24
	for _, name := range names {
		if n, err := strconv.Atoi(found[name]); err == nil && n >= 0 && n < most {
			return &n
		}
	}
	return nil
}

var (
	// 64 hexadecimal digits, as docker, containerd, CRI-O and podman name control
	// groups, alone or in docker-….scope.
	containerID = regexp.MustCompile(`(?:/|/([a-z-]{1,24})-)([0-9a-f]{12})[0-9a-f]{52}(?:\.scope)?(?:[/:\n]|$)`)
	// LXC's and systemd-nspawn's have names.
	containerName = regexp.MustCompile(`/(?:lxc\.payload[./]|lxc/|machine\.slice/(?:machine|systemd-nspawn)[-@])([^/\n]{1,64})`)
)

// containerOf reads the container off the names of control groups; "": it is in
// none, or in one whose names say nothing.
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
