package faults

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// container is the environment of a victim: at least its own mount namespace, in which /srv has
// the output of make, and /mnt is a folder of the test.
type container struct {
	root    string // directory of its root file system; "": the machine's
	flags   uintptr
	user    int      // 0: root
	mapped  int      // in a user namespace: what its root is outside
	script  string   // shell commands before the program, each with && behind it
	preload []string // before the simulator
	env     []string
}

// onGPU starts a victim, or any program by its path, in the container, with GPU work.
func (c container) onGPU(t *testing.T, program string, args ...string) *gpuVictim {
	t.Helper()
	dir := openDir(t)
	count := filepath.Join(dir, "count")
	if err := os.WriteFile(count, make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(count, 0o666); err != nil { // past the umask
		t.Fatal(err)
	}
	gpu := append(c.preload, "/srv/victims/gpuwork.so", "/srv/libsoftgpu.so")
	c.env = append(c.env, "LD_PRELOAD="+strings.Join(gpu, ":"), "GPUWORK_CODE=/srv/workloads/kernels.hsaco", "GPUWORK_COUNT=/mnt/count")
	return gpuRun(t, c.command(t, dir, program, args...), count)
}

// command returns a command that prepares the container and then executes the program.
func (c container) command(t *testing.T, dir, program string, args ...string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		cannot(t, "only root can make namespaces")
	}
	build := filepath.Dir(testenv.Artefact(t, "rtl-attach"))
	script := fmt.Sprintf("set -e; mount --make-rprivate /; r='%s'; ", c.root)
	if c.root != "" {
		script += `mount --bind "$r" "$r"; mount --rbind /dev "$r/dev"; mount --rbind /sys "$r/sys"; `
	}
	script += fmt.Sprintf(`mount --bind '%s' "$r/srv"; mount --bind '%s' "$r/mnt"; `, build, dir)
	if c.root != "" {
		script += `mount -t proc proc "$r/proc"; cd "$r"; pivot_root . .; umount -l .; cd /; `
	}
	script += c.script
	if c.user != 0 {
		script += fmt.Sprintf("exec setpriv --reuid=%d --regid=%d --clear-groups --inh-caps=-all ", c.user, c.user)
	} else {
		script += "exec "
	}
	if !filepath.IsAbs(program) {
		program = "/srv/victims/" + program
	}
	vars := append([]string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/"}, c.env...)
	cmd := exec.Command("/bin/sh", append(append([]string{"-c", script + `env -i "$@"`, "sh"}, vars...), append([]string{program}, args...)...)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: c.flags | unix.CLONE_NEWNS}
	if c.flags&unix.CLONE_NEWUSER != 0 {
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: c.mapped, Size: 65536}}
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = ids, ids
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 0, Gid: 0}
	}
	return cmd
}

// openDir returns a folder of the test that any user can enter.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// enter runs a command in a process's namespaces; args are nsenter's.
func enter(t *testing.T, pid int, args ...string) {
	t.Helper()
	if out, err := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(pid)}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("nsenter %v: %v\n%s", args, err, out)
	}
}

// debian returns the root file system of a release, which make matrix creates.
func debian(t *testing.T, suite string) string {
	t.Helper()
	root := filepath.Join(filepath.Dir(testenv.Artefact(t, "rtl-attach")), "roots", suite)
	if _, err := os.Stat(root); err != nil {
		cannot(t, "no root file system of Debian "+suite+" (make matrix makes it, from a mirror that has it)")
	}
	if _, err := os.Stat(root + ".log"); err == nil {
		cannot(t, "the root file system of Debian "+suite+" is incomplete (why: "+root+".log)")
	}
	return root
}

var (
	glibcVersion = regexp.MustCompile(`GNU C Library \([^)]*\) \w+ release version ([0-9.]*[0-9])`)
	rocrVersion  = regexp.MustCompile(`/libhsa-runtime64\.so\.([0-9.]+)`)
)

// libraries returns the versions of a process's C library and ROCr, by their files.
func libraries(t *testing.T, pid int) string {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	libc, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/lib/x86_64-linux-gnu/libc.so.6", pid))
	if err != nil {
		t.Fatal(err)
	}
	glibc, rocr := glibcVersion.FindSubmatch(libc), rocrVersion.FindSubmatch(maps)
	said := "glibc ?"
	if glibc != nil {
		said = "glibc " + string(glibc[1])
	}
	if rocr != nil {
		said += ", libhsa-runtime64.so." + string(rocr[1])
	}
	return said
}

// mapping returns the first line of a process's maps with all these words; "": none.
func mapping(pid int, words ...string) string {
	maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	for line := range bytes.Lines(maps) {
		has := true
		for _, word := range words {
			has = has && bytes.Contains(line, []byte(word))
		}
		if has {
			return strings.TrimSpace(string(line))
		}
	}
	return ""
}

// bystander starts a victim without a GPU, by any command.
func bystander(t *testing.T, program string) *victim.Victim {
	t.Helper()
	return victim.Run(t, exec.Command(victim.Path(t, program)))
}
