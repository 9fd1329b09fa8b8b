package preflight

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/moby/sys/capability"
	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/privilege"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// machineChecks check the machine and this tool's rights. They follow the checks of an attach
// that need no process.
var machineChecks = []struct {
	part, name, lookedAt string
	look                 func() CheckResult
}{
	{ofMachine, "kernel", "uname, pidfd_open, openat2", kernelCheck},
	{ofMachine, "proc", "/proc/self: is it this pid namespace's?", procCheck},
	{ofMachine, "user", "this tool's user and effective capabilities", userCheck},
	{ofMachine, "yama", "kernel.yama.ptrace_scope", yamaCheck},
	{ofMachine, "ptrace", "a ptrace call that can do nothing, this tool's seccomp mode", ptraceCheck},
	{ofMachine, "memfd", "memfd_create, vm.memfd_noexec", memfdCheck},
	{ofMachine, "security", "SELinux, AppArmor, lockdown", securityCheck},
	{ofMachine, "driver", "/dev/kfd", driverCheck},
	{ofMachine, "container", "this tool's pid namespace", containerCheck},
	{ofOptional, "short stops", "CAP_SYS_NICE", niceCheck},
	{ofOptional, "map_files", "CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN", mapFilesCheck},
	{ofOptional, "filters", "CAP_SYS_ADMIN, this tool's seccomp mode", filtersCheck},
	{ofOptional, "stamps", "the kernel's clock source", stampsCheck},
	{ofOptional, "pause meter", "BTF, pid namespace, capabilities, kernel.unprivileged_bpf_disabled, lockdown", bpfCheck},
	{ofOptional, "threads", "the same, and the kernel's release", threadsCheck},
}

// machine adds the checks that are the same for every process. If the processes themselves were
// checked, none of these makes an attach fail.
func (d *Diagnosis) machine(lookedAtThemselves bool) {
	for _, m := range machineChecks {
		c := m.look().as(m.part, m.name, m.lookedAt)
		if lookedAtThemselves && c.Result == Fails {
			c.Result, c.ExitCode = Less, failure.OK
		}
		d.Checks = append(d.Checks, c)
	}
}

// common makes the checks of an attach that need no process.
func (d *Diagnosis) common(r Request) {
	p := New(r)
	for _, c := range machineOnly() {
		result := fine("")
		if err := c.do(&p); err != nil {
			result = refusal(r.PID, err)
		} else {
			result.Found = c.found(&p)
		}
		d.Checks = append(d.Checks, result.as(ofMachine, c.name, c.lookedAt))
	}
}

func kernelCheck() CheckResult {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return fails(failure.Failed, "uname: "+err.Error(), "")
	}
	found := fmt.Sprintf("Linux %s, %s", unix.ByteSliceToString(name.Release[:]), unix.ByteSliceToString(name.Machine[:]))
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fails(failure.Failed, found+": pidfd_open: "+err.Error(), "a kernel from 5.6 on is needed, and no seccomp filter against its calls")
	}
	_ = unix.Close(fd)
	fd, err = unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err != nil {
		return fails(failure.Failed, found+": openat2: "+err.Error(), "a kernel from 5.6 on is needed, and no seccomp filter against its calls")
	}
	_ = unix.Close(fd)
	return fine(found)
}

func procCheck() CheckResult {
	if err := target.CheckProc(); err != nil {
		return refusal(0, err)
	}
	return fine("this namespace's")
}

func containerCheck() CheckResult {
	if target.InContainer() {
		return less("another pid namespace than the machine's first", "processes outside are not seen, and pids are those in here", "run this on the host to see all")
	}
	return fine("the machine's first pid namespace")
}

func userCheck() CheckResult {
	found := fmt.Sprintf("uid %d", os.Geteuid())
	if !privilege.Effective(capability.CAP_SYS_PTRACE) {
		return less(found+", no CAP_SYS_PTRACE", "only dumpable processes of this user can be attached to", failure.SudoFix)
	}
	return fine(found + ", CAP_SYS_PTRACE")
}

func yamaCheck() CheckResult {
	scope := target.PtraceScope()
	denied := &target.DeniedError{PtraceScope: scope, SysPtrace: privilege.Effective(capability.CAP_SYS_PTRACE), UID: os.Geteuid(), Owner: os.Geteuid()}
	switch {
	case scope < 0:
		return fine("not in this kernel")
	case scope == failure.NoTracing, scope > 0 && !denied.SysPtrace:
		return fails(failure.NotPermitted, failure.DenialCause(denied), failure.DenialFix(denied))
	}
	return fine(fmt.Sprint(scope))
}

const noPtraceFix = "allow ptrace in the seccomp profile of this tool's container, or run this on the host"

func ptraceCheck() CheckResult {
	if err := mayTrace(); err != nil {
		return fails(failure.NotPermitted, "a seccomp filter of this tool's own refuses ptrace: "+err.Error(), noPtraceFix)
	}
	return fine("permitted")
}

// mayTrace calls PTRACE_INTERRUPT for a process that cannot exist. The kernel answers ESRCH; any
// other answer comes from a seccomp filter.
func mayTrace() error {
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_INTERRUPT, 0, 0, 0, 0, 0)
	if errno == unix.ESRCH {
		return nil
	}
	return errno
}

func memfdCheck() CheckResult {
	fd, err := unix.MemfdCreate("rtl-attach", unix.MFD_CLOEXEC)
	if err != nil {
		return fails(failure.Failed, "memfd_create: "+err.Error(), "a kernel with memfds is needed, and no seccomp filter against them")
	}
	_ = unix.Close(fd)
	scope := readLine("/proc/sys/vm/memfd_noexec")
	if scope == "2" {
		return fine("vm.memfd_noexec = 2: the payload is loaded from a memfd all the same, or from a file of the target's folders")
	}
	return fine("memfd_create works")
}

func securityCheck() CheckResult {
	var found []string
	for _, f := range []struct{ name, path string }{
		{"SELinux enforcing", "/sys/fs/selinux/enforce"},
		{"deny_ptrace", "/sys/fs/selinux/booleans/deny_ptrace"},
		{"AppArmor", "/proc/self/attr/apparmor/current"},
		{"lockdown", "/sys/kernel/security/lockdown"},
	} {
		if line := readLine(f.path); line != "" {
			found = append(found, f.name+": "+line)
		}
	}
	all := strings.Join(found, "; ")
	switch {
	case len(found) == 0:
		return fine("none restricts ptrace here")
	case readLine("/sys/fs/selinux/enforce") == "1" && strings.HasPrefix(readLine("/sys/fs/selinux/booleans/deny_ptrace"), "1"):
		return less(all, "SELinux may refuse ptrace", "setsebool deny_ptrace 0, while recording")
	case strings.HasSuffix(readLine("/proc/self/attr/apparmor/current"), "(enforce)"):
		return less(all, "this tool runs under an AppArmor profile: it may trace what that allows", "run this on the host, or with apparmor=unconfined")
	}
	return fine(all)
}

// driverCheck checks the device node without opening it, which would make this a GPU process.
func driverCheck() CheckResult {
	_, err := os.Lstat("/dev/kfd")
	switch {
	case err == nil:
		return fine("/dev/kfd is there")
	case errors.Is(err, os.ErrNotExist):
		return less("no /dev/kfd", "the AMD GPU driver is not loaded, or its device is not passed into this container", "GPU processes elsewhere (in other containers) can be attached to all the same")
	}
	return less("not known", "/dev/kfd cannot be looked at: "+err.Error(), "look at the permissions of /dev here; GPU processes can be attached to all the same")
}

// readLine returns the first line of a /proc or /sys file; "" if it cannot be read.
func readLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.Trim(line, "\x00 ")
}
