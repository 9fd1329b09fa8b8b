package failure

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// ErrTakenOver means that another recorder may have taken the target over.
var ErrTakenOver = errors.New("another recorder took over: our heartbeat timed out")

func explainAccess(f *Error) bool {
	var (
		traced *target.TracedError
		denied *target.DeniedError
		busy   *target.BusyError
		died   *inject.DiedError
	)
	switch {
	case errors.As(f.Err, &traced) && traced.Tracer == 0:
		return f.set(NotPermitted, "it is traced by a process in another pid namespace", "end that tracer, then run this again")
	case errors.As(f.Err, &traced):
		name := cmp.Or(traced.Name, "a process") // it has ended since, or its name is hidden (hidepid)
		return f.set(NotPermitted, fmt.Sprintf("it is traced by %s (pid %d)", name, traced.Tracer),
			fmt.Sprintf("quit %s, then run this again", cmp.Or(traced.Name, "that tracer")))
	case errors.As(f.Err, &denied):
		return f.set(NotPermitted, DenialCause(denied), DenialFix(denied))
	case errors.As(f.Err, &busy):
		return explainBusy(f, busy)
	case errors.Is(f.Err, ErrTakenOver):
		return explainTakenOver(f)
	case errors.Is(f.Err, resident.ErrRecordsItself):
		f.Target = Untouched
		return f.set(NotPermitted, "it records itself, by librtl", "let it end its session (rtl_stop), or end that with `rtl-attach detach`, then run this again")
	case errors.Is(f.Err, ring.ErrHeld):
		return f.set(NotPermitted, "another recorder holds it", "end that session with `rtl-attach detach`, then run this again")
	case errors.As(f.Err, &died) && errors.Is(f.Err, target.ErrGone):
		return f.set(TargetExited, "no process has this pid (any more): it ended when it was to "+died.Step,
			"if it crashed there (dmesg says so), please report it; else look for the server's present pid")
	case errors.Is(f.Err, target.ErrProc):
		return f.set(NotPermitted, "the /proc that is mounted here is of another pid namespace than this process",
			"mount the one of this namespace (mount -t proc proc /proc), or run this where the /proc comes from")
	case errors.Is(f.Err, target.ErrGone) && f.Target == Untouched && target.InContainer():
		return f.set(NotPermitted, "no process has this pid (any more) in this container's pid namespace",
			"give the pid that it has in here, or run this on the host")
	case errors.Is(f.Err, target.ErrGone):
		return f.set(NotPermitted, "no process has this pid (any more)", "look for the server's present pid")
	case errors.Is(f.Err, target.ErrZombie):
		return f.set(NotPermitted, "it has exited and waits for its parent", "look for the server's present pid")
	case errors.Is(f.Err, target.ErrStopped):
		return f.set(NotPermitted, "it is stopped by a job-control signal, and must stay so", "resume it (kill -CONT), then run this again")
	}
	return false
}

func explainBusy(f *Error, busy *target.BusyError) bool {
	holder, fix := "", "wait for it, then run this again"
	if busy.Holder != 0 {
		holder, fix = fmt.Sprintf(" (pid %d)", busy.Holder), fmt.Sprintf("wait for it, or end its session: rtl-attach detach %d", busy.PID)
	}
	return f.set(NotPermitted, fmt.Sprintf("another rtl-attach%s works on it", holder), fix)
}

// explainTakenOver differs from ring.ErrHeld: this tool had attached to the target.
func explainTakenOver(f *Error) bool {
	if f.Code != Remains {
		f.Target = "the other recorder's; without one its payload detaches by itself within seconds"
	}
	return f.set(Failed, "our heartbeat stopped for seconds (SIGSTOP, a machine that was held up), or the target's memory is damaged",
		"end its session with `rtl-attach detach`, then run this again")
}

// NoTracing is the ptrace_scope under which CAP_SYS_PTRACE does not help, either.
const NoTracing = 3

// DenialCause returns why the kernel refuses. It checks in the kernel's order: the owner,
// whether the process is dumpable, then Yama.
func DenialCause(d *target.DeniedError) string {
	switch {
	case d.PtraceScope == NoTracing:
		return fmt.Sprintf("kernel.yama.ptrace_scope = %d: nobody may trace until the next boot", d.PtraceScope)
	case d.UID != d.Owner && !d.SysPtrace:
		return fmt.Sprintf("it belongs to uid %d, and uid %d lacks CAP_SYS_PTRACE%s", d.Owner, d.UID, scopeToo(d))
	case d.Undumpable && !d.SysPtrace:
		return fmt.Sprintf("it is not dumpable (prctl(2), or it has changed its user), and uid %d lacks CAP_SYS_PTRACE%s", d.UID, scopeToo(d))
	case d.PtraceScope > 0 && !d.SysPtrace:
		return fmt.Sprintf("kernel.yama.ptrace_scope = %d and this user lacks CAP_SYS_PTRACE", d.PtraceScope)
	case d.UserNS:
		return "it lives in another user namespace"
	case needsOverride(d):
		return fmt.Sprintf("its files in /proc are not those of uid %d, which lacks CAP_DAC_OVERRIDE (it has CAP_SYS_PTRACE)", d.UID)
	}
	return fmt.Sprintf("the kernel refused to %s: %v", d.Op, d.Err)
}

// needsOverride reports whether CAP_SYS_PTRACE is not enough: the memory of another user's process is a file of
// that user, and root's if the process is not dumpable.
func needsOverride(d *target.DeniedError) bool {
	return d.SysPtrace && d.NoOverride && (d.UID != d.Owner || d.Undumpable)
}

func scopeToo(d *target.DeniedError) string {
	if d.PtraceScope <= 0 {
		return ""
	}
	return fmt.Sprintf(" (kernel.yama.ptrace_scope = %d asks for that, too)", d.PtraceScope)
}

// SudoFix is the fix for a user without the necessary capability.
const SudoFix = "run this with sudo (nothing to restart)"

// DenialFix returns how to give this tool the missing right.
func DenialFix(d *target.DeniedError) string {
	if d.PtraceScope == NoTracing {
		return "reboot with a lower scope: this one cannot be changed (Documentation/admin-guide/LSM/Yama.rst)"
	}
	if needsOverride(d) && !d.UserNS {
		return "run this with sudo, or give the tool that capability, too: setcap cap_sys_ptrace,cap_dac_override=ep FILE"
	}
	if d.SysPtrace {
		return "run this on the host, or with the capabilities of the target's container"
	}
	return SudoFix
}
