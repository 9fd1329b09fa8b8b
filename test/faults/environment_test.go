package faults

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// Group E: the environment of the process.
var environment = []row{
	{"39a", "pid and mount namespace", "attached from outside", inNamespaces},
	{"39b", "user namespace", "attached from outside", inUserNamespace},
	{"39c", "a container of Debian 13, in all three", "attached, its own libc and ROCr", inContainer},
	{"39d", "tool inside the container", "attached", toolInside},
	{"39e", "tool in another pid namespace", "refused, cause named", toolElsewhere},
	{"39g", "pid namespace, under the outer /proc", "attached", outerProc},
	{"39f", "tool with the /proc of another pid namespace", "refused, cause named", toolWithForeignProc},
	{"40a", "read-only noexec root", "attached through a memfd", noexecRoot},
	{"40b", "no /proc in the target's root", "refused; the injector stages a file", noProc},
	{"40c", "no /proc, and all folders noexec or read-only", "a clear error, as found", nowhereToStage},
	{"40d", "40b, and the injector or the target is killed while the file is there", "the file is removed", diesStaging},
	{"41", "vm.memfd_noexec = 2", "attached through a memfd", memfdNoexec},
	{"42a", "ptrace_scope 1, 2 and 3 as read from a file of the test's", "refused, cause named", ptraceScopeRead},
	{"42b", "ptrace_scope 1 and 2, enforced by the kernel", "refused, cause named; root attaches", ptraceScopeEnforced},
	{"43a", "nondumpable", "root attaches", nondumpable},
	{"43b", "nondumpable, by its own user", "refused, cause named", nondumpableByOwner},
	{"43c", "setuid", "root attaches, its user is refused", setuid},
	{"43d", "another user's", "refused, cause named", anotherUsers},
	{"44a", "seccomp against clone", "refused, the call named", filtered("clone=refuse", "clone")},
	{"44b", "seccomp against executable mappings", "refused, the call named", filtered("exec=refuse", "mmap (executable)")},
	{"44c", "seccomp that kills for a memfd", "refused, alive", filtered("memfd=kill", "memfd_create")},
	{"44d", "seccomp that has nothing against us", "attached", harmlessFilter},
	{"44e", "seccomp that kills for what neither the target nor we need", "attached", sparseFilter},
	{"45a", "no memory may become executable (PR_SET_MDWE)", "attached", noExecGain},
	{"45b", "execmem refused by SELinux", "a clear error", selinux},
	{"46a", "RLIMIT_AS reached", "a clear error, as found", noAddressSpace},
	{"46b", "RLIMIT_AS reached by the session's memory", "a clear error, as found", noRoomForRing},
	{"46c", "RLIMIT_NPROC reached", "a clear error, as found", noProcesses},
	{"46d", "pids.max reached", "a clear error, as found", noPids},
	{"47", "shadow stack on", "refused, untouched", shadowStack},
}

const (
	containerFlags = unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	nobody         = 65534
	somebody       = 54321 // who has no other process
)

const ownProc = "mount -t proc proc /proc; "

func inNamespaces(t *testing.T) string {
	return container{flags: unix.CLONE_NEWPID, script: ownProc}.onGPU(t, "busy").attachedBusy(t, repeat(3, 50))
}

func inUserNamespace(t *testing.T) string {
	v := container{flags: unix.CLONE_NEWPID | unix.CLONE_NEWUSER, mapped: 100000, script: ownProc}.onGPU(t, "busy")
	return fmt.Sprintf("uid %s: %s", statusOf(v.PID, strconv.Itoa(v.PID))["Uid"], v.attachedBusy(t, repeat(3, 50)))
}

func inContainer(t *testing.T) string {
	v := container{root: debian(t, "trixie"), flags: containerFlags | unix.CLONE_NEWUSER, mapped: 100000}.onGPU(t, "busy")
	return fmt.Sprintf("uid %s, %s: %s", statusOf(v.PID, strconv.Itoa(v.PID))["Uid"], libraries(t, v.PID), v.attachedBusy(t, repeat(3, 50)))
}

// outerProc: the target's /proc belongs to another pid namespace, in which its pid differs.
func outerProc(t *testing.T) string {
	return container{flags: unix.CLONE_NEWPID}.onGPU(t, "busy").attachedBusy(t, repeat(3, 50))
}

// toolInside: the tool shares all of the container's namespaces.
func toolInside(t *testing.T) string {
	v := container{flags: containerFlags, script: ownProc}.onGPU(t, "odd", "mallocs")
	trace := filepath.Join(t.TempDir(), "t.db")
	r := wrapped(trace, exec.Command("nsenter", "-t", strconv.Itoa(v.PID), "-m", "-p", "-i", "-u",
		"/srv/rtl-attach", "-p", "1", "-d", "5s", "-v", "-o", trace))
	r.Start(t)
	r.Exit(t)
	timed := r.ok(t)
	v.well(t)
	return fmt.Sprintf("it is pid 1 there, %d dispatches timed", timed)
}

// toolElsewhere: the target has no pid in the tool's namespace.
func toolElsewhere(t *testing.T) string {
	v := onGPU(t, "odd")
	said := elsewhere(t, v, ownProc+`exec "$0" "$@"`).refusal(t, failure.NotPermitted, "pid namespace", "on the host", "target  not touched")
	v.untouched(t)
	return said
}

func toolWithForeignProc(t *testing.T) string {
	v := onGPU(t, "odd")
	said := elsewhere(t, v, `exec "$0" "$@"`).refusal(t, failure.NotPermitted, "another pid namespace", "mount", "target  not touched")
	v.untouched(t)
	return said
}

// elsewhere runs the tool in its own pid namespace.
func elsewhere(t *testing.T, v *gpuVictim, script string) *run {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "t.db")
	r := wrapped(trace, exec.Command("/bin/sh", "-c", "mount --make-rprivate / && "+script,
		testenv.Artefact(t, "rtl-attach"), "-p", strconv.Itoa(v.PID), "-d", "300ms", "-o", trace))
	r.Cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	r.Start(t)
	r.Exit(t)
	return r
}

func noexecRoot(t *testing.T) string {
	v := container{}.onGPU(t, "busy")
	for _, at := range []string{"/srv", "/"} { // from there on, mount cannot be executed
		enter(t, v.PID, "-m", "mount", "-o", "remount,bind,ro,noexec", at)
	}
	said := v.attachedBusy(t, repeat(3, 50))
	v.fromMemfd(t)
	return said
}

func (v *gpuVictim) fromMemfd(t *testing.T) {
	t.Helper()
	if mapping(v.PID, "/memfd:", "rtl-payload") == "" {
		t.Errorf("the payload is not mapped from a memfd: %s", mapping(v.PID, "rtl-payload"))
	}
}

func memfdNoexec(t *testing.T) string {
	if _, err := os.Stat("/proc/sys/vm/memfd_noexec"); err != nil {
		cannot(t, "no vm.memfd_noexec in this kernel")
	}
	v := container{flags: unix.CLONE_NEWPID, script: ownProc + "echo 2 >/proc/sys/vm/memfd_noexec; "}.onGPU(t, "busy")
	said := v.attachedBusy(t, repeat(3, 50))
	v.fromMemfd(t)
	return said
}

// ptraceScopeRead: a folder of the test is mounted over /proc/sys/kernel, in the tool's own mount
// namespace. The test writes nothing to the kernel's file, and never 3.
func ptraceScopeRead(t *testing.T) string {
	v := onGPU(t, "odd")
	dir := openDir(t)
	if err := os.Mkdir(filepath.Join(dir, "yama"), 0o755); err != nil {
		t.Fatal(err)
	}
	var causes []string
	for scope, fix := range map[string]string{"1": "sudo", "2": "sudo", "3": "reboot"} {
		if err := os.WriteFile(filepath.Join(dir, "yama/ptrace_scope"), []byte(scope+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		r := toolAs(t, nobody, fmt.Sprintf("mount --bind '%s' /proc/sys/kernel; ", dir), v.PID)
		causes = append(causes, r.refusal(t, failure.NotPermitted, "kernel.yama.ptrace_scope = "+scope, fix, "target  not touched"))
	}
	v.untouched(t)
	slices.Sort(causes)
	return strings.Join(causes, "; ")
}

// ptraceScopeEnforced: the tool and the process belong to the same user. The test never writes 3:
// only a reboot can change it back.
func ptraceScopeEnforced(t *testing.T) string {
	const sysctl = "/proc/sys/kernel/yama/ptrace_scope"
	was, err := os.ReadFile(sysctl)
	switch was := strings.TrimSpace(string(was)); {
	case err != nil:
		cannot(t, "no Yama in this kernel ("+err.Error()+"); what is said for 1, 2 and 3: row 42a, and TestDenial of internal/session")
	case was == "3":
		cannot(t, "kernel.yama.ptrace_scope is 3 here, until the next boot")
	}
	t.Cleanup(func() {
		if err := write(sysctl, string(was)); err != nil {
			t.Errorf("%s was %s: %v", sysctl, was, err)
		}
	})
	v := container{user: nobody}.onGPU(t, "busy")
	var causes []string
	for _, scope := range []string{"1", "2"} {
		if err := write(sysctl, scope); err != nil {
			cannot(t, "kernel.yama.ptrace_scope cannot be set: "+err.Error())
		}
		r := toolAs(t, nobody, "", v.PID)
		causes = append(causes, r.refusal(t, failure.NotPermitted, "kernel.yama.ptrace_scope = "+scope, "CAP_SYS_PTRACE", "sudo", "target  not touched"))
		v.sound(t)
		v.asFound(t)
	}
	return strings.Join(causes, "; ") + "; by root: " + v.attachedBusy(t, repeat(3, 50))
}

// toolAs runs the tool as another user, after a script as root.
func toolAs(t *testing.T, user int, script string, pid int) *run {
	t.Helper()
	dir := openDir(t)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	r := wrapped(filepath.Join(dir, "t.db"),
		container{user: user, script: script}.command(t, dir, "/srv/rtl-attach", "-p", strconv.Itoa(pid), "-d", "300ms", "-o", "/mnt/t.db"))
	r.Start(t)
	r.Exit(t)
	untraced(t, pid)
	return r
}

func nondumpable(t *testing.T) string {
	return onGPU(t, "odd", "nondumpable", "mallocs").attached(t, repeat(3, 50))
}

func nondumpableByOwner(t *testing.T) string {
	v := container{user: nobody}.onGPU(t, "odd", "nondumpable")
	said := toolAs(t, nobody, "", v.PID).refusal(t, failure.NotPermitted, "not dumpable", "sudo", "target  not touched")
	v.untouched(t)
	return said
}

func setuid(t *testing.T) string {
	v := container{user: nobody, script: setuidScript}.onGPU(t, "/media/odd", "mallocs")
	if uids := strings.Fields(statusOf(v.PID, strconv.Itoa(v.PID))["Uid"]); uids[0] != "65534" || uids[1] != "0" {
		t.Fatalf("uids %v: nothing is tested", uids)
	}
	said := toolAs(t, nobody, "", v.PID).refusal(t, failure.NotPermitted, "uid 0", "sudo", "target  not touched")
	v.untouched(t)
	return said + "; as root: " + v.attached(t, repeat(3, 50))
}

// setuidScript: in such a program the loader ignores LD_PRELOAD, but reads /etc/ld.so.preload.
const setuidScript = `
mount -t tmpfs none /media
mkdir /media/upper /media/work
mount -t overlay none -o lowerdir=/etc,upperdir=/media/upper,workdir=/media/work /etc
echo "/srv/victims/gpuwork.so /srv/libsoftgpu.so" >/etc/ld.so.preload
cp /srv/victims/odd /media/odd
chmod 4755 /media/odd
`

func anotherUsers(t *testing.T) string {
	v := onGPU(t, "odd")
	said := toolAs(t, nobody, "", v.PID).refusal(t, failure.NotPermitted, "uid 0", "CAP_SYS_PTRACE", "sudo", "target  not touched")
	v.untouched(t)
	return said
}

func filtered(rule, call string) func(*testing.T) string {
	return func(t *testing.T) string {
		v := onGPU(t, "odd", rule)
		if answer := v.Ask(t, "s"); answer != "0" {
			cannot(t, "no seccomp filter can be installed")
		}
		said := refused(t, v.PID, failure.Unsuitable, call, "seccomp", "target  ")
		v.untouched(t)
		return said
	}
}

func harmlessFilter(t *testing.T) string {
	v := onGPU(t, "odd", "reboot=kill")
	if answer := v.Ask(t, "s"); answer != "0" {
		cannot(t, "no seccomp filter can be installed")
	}
	return v.attached(t, repeat(3, 50))
}

// sparseFilter allows the system calls of this target and of the tool.
func sparseFilter(t *testing.T) string {
	calls := append(inject.Calls(),
		unix.SYS_WRITE, unix.SYS_POLL, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_EXIT_GROUP)
	only := strings.Trim(strings.ReplaceAll(fmt.Sprint(calls), " ", ","), "[]")
	v := onGPU(t, "odd", "only="+only)
	if answer := v.Ask(t, "s"); answer != "0" {
		cannot(t, "no seccomp filter can be installed")
	}
	return v.attached(t, repeat(3, 50))
}

func noExecGain(t *testing.T) string {
	v := onGPU(t, "odd")
	if errno := v.Ask(t, "w"); errno != "0" {
		cannot(t, "no PR_SET_MDWE in this kernel")
	}
	return v.attached(t, repeat(3, 50))
}

// selinux: its policy and the victim's domain decide whether it refuses.
func selinux(t *testing.T) string {
	if enforce, err := os.ReadFile("/sys/fs/selinux/enforce"); err != nil || strings.TrimSpace(string(enforce)) != "1" {
		cannot(t, "SELinux is not in force (only loading a policy, for the whole machine, would change that)")
	}
	v := onGPU(t, "odd")
	switch answer := v.Ask(t, "e"); answer {
	case "0":
		cannot(t, "SELinux lets this user's programs have executable memory (deny_execmem, for the whole machine, would change that)")
	case strconv.Itoa(int(unix.EACCES)):
	default:
		t.Fatalf("executable memory: errno %s", answer)
	}
	said := refused(t, v.PID, failure.Failed, "mmap", unix.EACCES.Error(), "target  as found")
	v.untouched(t)
	return said
}

func noAddressSpace(t *testing.T) string {
	v := onGPU(t, "odd")
	limit(t, v.PID, unix.RLIMIT_AS, addressSpace(t, v.PID))
	said := refused(t, v.PID, failure.Failed, "mmap", "cannot allocate memory", "prlimit --as", "target  as found")
	v.untouched(t)
	return said + "; without the limit: " + relieved(t, v, unix.RLIMIT_AS)
}

// noRoomForRing: there is memory for bootstrap and payload, but not for the ring.
func noRoomForRing(t *testing.T) string {
	v := onGPU(t, "odd")
	limit(t, v.PID, unix.RLIMIT_AS, addressSpace(t, v.PID)+1<<30)
	r := record(t, v.PID, "--buffer-size", "4GiB")
	said := r.refusal(t, failure.Failed, "no ring", "--buffer-size", "as found")
	untraced(t, v.PID)
	v.well(t)
	return said + "; without the limit: " + relieved(t, v, unix.RLIMIT_AS)
}

func noProcesses(t *testing.T) string {
	v := container{user: somebody}.onGPU(t, "odd")
	if answer := v.Ask(t, "n"); answer != "0" {
		t.Fatalf("its limit of processes cannot be set: %s", answer)
	}
	said := refused(t, v.PID, failure.Failed, "clone", "resource temporarily unavailable", "--nproc", "target  as found")
	v.untouched(t)
	v.Ask(t, "N")
	return said + "; without the limit: " + v.attached(t, 1)
}

func noPids(t *testing.T) string {
	v := onGPU(t, "odd")
	most := filepath.Join(cgroup(t, "pids", v.PID), "pids.max")
	if err := write(most, strconv.Itoa(len(threadsOf(v.PID)))); err != nil {
		cannot(t, "no control group that limits threads: "+err.Error())
	}
	said := refused(t, v.PID, failure.Failed, "clone", "resource temporarily unavailable", "pids.max", "target  as found")
	v.untouched(t)
	if err := write(most, "max"); err != nil {
		t.Fatal(err)
	}
	return said + "; without the limit: " + v.attached(t, 1)
}

// limit sets a soft limit of a process.
func limit(t *testing.T, pid, what int, to uint64) {
	t.Helper()
	var now unix.Rlimit
	err := unix.Prlimit(pid, what, nil, &now)
	if err == nil {
		now.Cur = min(to, now.Max)
		err = unix.Prlimit(pid, what, &now, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func relieved(t *testing.T, v *gpuVictim, what int) string {
	t.Helper()
	limit(t, v.PID, what, unix.RLIM_INFINITY)
	return v.attached(t, 1)
}

// addressSpace returns a process's size in bytes.
func addressSpace(t *testing.T, pid int) uint64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseUint(string(bytes.Fields(b)[0]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * uint64(os.Getpagesize())
}

// shadowStack: docs/decisions/0018. The victim's main thread gets one while it runs.
func shadowStack(t *testing.T) string {
	v := onGPU(t, "odd")
	if errno := v.Ask(t, "k"); errno != "0" {
		code, _ := strconv.Atoi(errno)
		cannot(t, fmt.Sprintf("no user shadow stacks here (ARCH_SHSTK_ENABLE: %v); that they are seen: TestParseStatus of internal/target",
			unix.Errno(code)))
	}
	if features := statusOf(v.PID, strconv.Itoa(v.PID))["x86_Thread_features"]; !strings.Contains(features, "shstk") {
		t.Fatalf("the kernel says %q: nothing is tested", features)
	}
	said := refused(t, v.PID, failure.Unsuitable, "shadow stack", "target  not touched")
	v.untouched(t)
	return said
}
