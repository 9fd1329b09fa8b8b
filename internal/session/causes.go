package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/payload"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

func explainAccess(f *Failure) bool {
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
		name := cmp.Or(traced.Name, "a process") // that has ended since, or whose name is hidden from us (hidepid)
		return f.set(NotPermitted, fmt.Sprintf("it is traced by %s (pid %d)", name, traced.Tracer),
			fmt.Sprintf("quit %s, then run this again", cmp.Or(traced.Name, "that tracer")))
	case errors.As(f.Err, &denied):
		return f.set(NotPermitted, denialCause(denied), denialFix(denied))
	case errors.As(f.Err, &busy) && busy.Holder == 0:
		return f.set(NotPermitted, "another rtl-attach works on it", "wait for it, then run this again")
	case errors.As(f.Err, &busy):
		return f.set(NotPermitted, fmt.Sprintf("another rtl-attach (pid %d) works on it", busy.Holder),
			fmt.Sprintf("wait for it, or end its session: rtl-attach detach %d", busy.PID))
	case errors.Is(f.Err, errTakenOver):
		return explainTakenOver(f)
	case errors.Is(f.Err, ring.ErrHeld):
		return f.set(NotPermitted, "another recorder holds it", "end that session with `rtl-attach detach`, then run this again")
	case errors.As(f.Err, &died) && errors.Is(f.Err, target.ErrGone):
		return f.set(TargetExited, "no process has this pid (any more): it ended when it was to "+died.Step,
			"if it crashed there (dmesg says so), please report it; else look for the server's present pid")
	case errors.Is(f.Err, target.ErrProc):
		return f.set(NotPermitted, "the /proc that is mounted here is of another pid namespace than this process",
			"mount the one of this namespace (mount -t proc proc /proc), or run this where the /proc comes from")
	case errors.Is(f.Err, target.ErrGone) && f.Target == untouched && target.InContainer():
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

// explainTakenOver: unlike with one that is held from the start, the target was attached to.
func explainTakenOver(f *Failure) bool {
	if f.Code != Remains {
		f.Target = "the other recorder's; without one its payload detaches by itself within seconds"
	}
	return f.set(Failed, "it saw no sign of life of this one for seconds (SIGSTOP, a machine that was held up), or the target's memory is damaged",
		"end its session with `rtl-attach detach`, then run this again")
}

// noTracing is the scope that even CAP_SYS_PTRACE does not help against.
const noTracing = 3

// denialCause goes in the kernel's order: whose it is, whether it is dumpable, then Yama.
func denialCause(d *target.DeniedError) string {
	switch {
	case d.PtraceScope == noTracing:
		return fmt.Sprintf("kernel.yama.ptrace_scope = %d: nobody may trace until the next boot", d.PtraceScope)
	case d.UID != d.Owner && !d.SysPtrace:
		return fmt.Sprintf("it belongs to uid %d, and uid %d lacks CAP_SYS_PTRACE%s", d.Owner, d.UID, scopeToo(d))
	case d.Undumpable && !d.SysPtrace:
		return fmt.Sprintf("it is not dumpable (prctl(2), or it has changed its user), and uid %d lacks CAP_SYS_PTRACE%s", d.UID, scopeToo(d))
	case d.PtraceScope > 0 && !d.SysPtrace:
		return fmt.Sprintf("kernel.yama.ptrace_scope = %d and this user lacks CAP_SYS_PTRACE", d.PtraceScope)
	case d.UserNS:
		return "it lives in another user namespace"
	}
	return fmt.Sprintf("the kernel refused to %s: %v", d.Op, d.Err)
}

func scopeToo(d *target.DeniedError) string {
	if d.PtraceScope <= 0 {
		return ""
	}
	return fmt.Sprintf(" (kernel.yama.ptrace_scope = %d asks for that, too)", d.PtraceScope)
}

func denialFix(d *target.DeniedError) string {
	if d.PtraceScope == noTracing {
		return "reboot with a lower scope: this one cannot be changed (Documentation/admin-guide/LSM/Yama.rst)"
	}
	if d.SysPtrace {
		return "run this on the host, or with the capabilities of the target's container"
	}
	return "run this with sudo (nothing to restart)"
}

func explainProgram(f *Failure) bool {
	switch {
	case errors.Is(f.Err, target.ErrKernel):
		return f.set(Unsuitable, "it is a kernel thread", "give the pid of a GPU process")
	case errors.Is(f.Err, target.ErrStatic):
		return f.set(Unsuitable, "it is linked statically: no library can be loaded into it", "trace a dynamically linked build")
	case errors.Is(f.Err, target.ErrMusl), errors.Is(f.Err, target.ErrLibc):
		return f.set(Unsuitable, bare(f.Err), "none for this build: trace one that is linked with glibc")
	case errors.Is(f.Err, target.ErrArch):
		return f.set(Unsuitable, bare(f.Err), "none for this build: trace one for x86-64")
	case errors.Is(f.Err, ptrace.ErrFilterHidden):
		return f.set(Unsuitable, bare(f.Err), "run this as root on the host, or in a privileged container: they can be read there")
	case errors.Is(f.Err, target.ErrSeccomp):
		return f.set(Unsuitable, bare(f.Err), "relax the seccomp profile of its container")
	case errors.Is(f.Err, target.ErrShadowStack):
		return f.set(Unsuitable, "it runs with a shadow stack: a stopped thread cannot be sent on a detour",
			"none while it runs; without the tunable that turned shadow stacks on, its next start can be traced")
	case errors.Is(f.Err, target.ErrNoProc):
		return f.set(Unsuitable, "no /proc is mounted where it runs, and the payload sees the process's threads through that",
			"mount one there: nsenter -m -p -t PID mount -t proc proc /proc")
	case errors.Is(f.Err, target.ErrExec):
		return f.set(Failed, "it has executed another program meanwhile", "run this again")
	case errors.Is(f.Err, target.ErrMalformed), errors.Is(f.Err, ring.ErrMalformed), errors.Is(f.Err, ring.ErrCorrupt):
		return f.set(Failed, "what it shows of itself cannot be: it is broken, or means to mislead",
			"look at the process first")
	case errors.Is(f.Err, target.ErrLoading):
		return f.set(Failed, "it has been loading libraries for a second", "run this again")
	}
	return false
}

func explainRuntime(f *Failure) bool {
	switch {
	case errors.Is(f.Err, target.ErrNoHSA):
		return f.set(Unsuitable, "libhsa-runtime64 is not mapped: it is no ROCm process, or has not used the GPU yet",
			"give the pid of a GPU process, or that of its server's front end (and no --no-tree)")
	case errors.Is(f.Err, ring.ErrVersion):
		return f.set(Unsuitable, bare(f.Err)+": another version of rtl-attach left its payload there",
			"use that version of rtl-attach, or restart the process when it suits")
	}
	return false
}

func explainInjection(f *Failure) bool {
	var (
		load    *inject.LoadError
		timeout *inject.TimeoutError
		failed  *inject.BootError
		asleep  *target.AsleepError
	)
	switch {
	case errors.As(f.Err, &asleep):
		return f.set(Failed, asleepCause(asleep), "run this again once it goes on: thaw its container, say, or let its vfork child or I/O end")
	case errors.Is(f.Err, inject.ErrNoThread):
		return f.set(Failed, bare(f.Err), "run this again; with --verbose it says which threads were tried")
	case errors.As(f.Err, &load) && errors.Is(f.Err, inject.ErrNotStaged):
		return f.set(Failed, fmt.Sprintf("its dynamic loader said: %s; and none of its folders takes an executable file", load.Text),
			"let it have one of /dev/shm, /tmp, /run or /var/tmp that is writable and not noexec")
	case errors.As(f.Err, &load):
		return f.set(Failed, "its dynamic loader said: "+load.Text, "put right what it names, then run this again")
	case errors.As(f.Err, &timeout):
		return f.set(Failed, fmt.Sprintf("step %q took longer than %s", timeout.Step, humanize.Duration(timeout.After)),
			"run this again; with --verbose it says which threads were tried")
	case errors.As(f.Err, &failed):
		return f.set(Failed, failed.Error(), bootFix(failed))
	case errors.Is(f.Err, inject.ErrLeft):
		return f.set(Failed, "this tool was held up for longer than its thread in the target waits for it (2 s)", "run this again")
	case errors.Is(f.Err, inject.ErrRights):
		return f.set(Failed, "its user or its capabilities changed while a thread was made in it", "run this again")
	case errors.Is(f.Err, inject.ErrNotBuilt):
		return f.set(Failed, "this binary was built without its bootstrap code", "build it with make")
	}
	return false
}

func bootFix(e *inject.BootError) string {
	switch {
	case errors.Is(e, unix.EAGAIN):
		return "allow it some more threads (prlimit --nproc, or pids.max of its control group), then run this again"
	case errors.Is(e, unix.ENOMEM):
		return "allow it some more memory (prlimit --as), then run this again"
	}
	return "run this again; with --verbose it says how far it came"
}

func asleepCause(e *target.AsleepError) string {
	cause := "all its threads are in uninterruptible sleep (state D)"
	if e.Where != "" {
		cause += ", the first in the kernel's " + e.Where
	}
	return cause
}

func explainPayload(f *Failure) bool {
	var refused *ring.CommandError
	if !errors.As(f.Err, &refused) {
		return false
	}
	fix := "run this again; with --verbose it says how far it came"
	switch refused.Errno {
	case unix.ENODEV:
		fix = "run this once the process has initialised ROCm"
	case unix.ETIMEDOUT:
		fix = "run this again"
	case unix.ECANCELED:
		fix = "run this once the process has started ROCm anew"
	case unix.ENOTSUP:
		fix = "name that one (--set RTL_HSA_LIBRARY=FILE), or restart the process to record the other"
	case unix.ENOMEM:
		fix = "try a smaller --buffer-size"
	}
	return f.set(Failed, refused.Error(), fix)
}

func explainLibrary(f *Failure) bool {
	var library *libraryError
	if !errors.As(f.Err, &library) {
		return false
	}
	f.What, f.Target = "the payload cannot be used: "+firstLine(library.err), untouched
	if errors.Is(library.err, payload.ErrNotBuilt) {
		return f.set(Failed, "this binary was built without it", "build it with make")
	}
	return f.set(Failed, "it is not there, or no shared library with a build id", "leave --payload out: one is built in")
}

func explainOutput(f *Failure) bool {
	cause, fix := bare(f.Err), ""
	switch {
	case errors.Is(f.Err, tracedb.ErrExists):
		cause, fix = "the file is there already", "choose another --output, replace the file with --force, or extend it with --append"
	case errors.Is(f.Err, tracedb.ErrNotReplaceable):
		fix = "choose another --output"
	case errors.Is(f.Err, tracedb.ErrInUse):
		cause, fix = "it has a journal: a recorder writes it, or was killed while it did", "choose another --output, or extend it with --append"
	case errors.Is(f.Err, tracedb.ErrUnwritable):
		fix = "choose an --output that this user can write"
	case errors.Is(f.Err, tracedb.ErrNoSpace):
		fix = "free some space, or choose another --output"
	case errors.Is(f.Err, errFull):
		cause, fix = "it has the size at which a recording ends", "give a larger --max-size, or choose another --output"
	default:
		if cause, fix = whyNotExtended(f.Err); fix == "" {
			return false
		}
	}
	f.What = "cannot write the trace: " + firstLine(f.Err)
	return f.set(Failed, cause, fix)
}

// whyNotExtended is about --append.
func whyNotExtended(err error) (cause, fix string) {
	fix = "leave it as it is, and choose another --output"
	switch {
	case errors.Is(err, tracedb.ErrOtherBoot):
		return "times of different boots do not fit on one line", fix
	case errors.Is(err, tracedb.ErrOtherLayout):
		return "only a trace with this version's tables, and no others, is extended", fix
	case errors.Is(err, tracedb.ErrForeign):
		return "only a file of this user's, with one name, on a local filesystem is extended", fix
	case errors.Is(err, tracedb.ErrNewerFormat):
		return "it was written by a newer rtl-attach", "extend it with that version, or choose another --output"
	case errors.Is(err, tracedb.ErrNotTrace):
		return "what is there was not made by rtl-attach", fix
	case errors.Is(err, tracedb.ErrBusy):
		return "another recording goes into it, or somebody reads it", "wait for that, or choose another --output"
	case errors.Is(err, tracedb.ErrJournal):
		return firstLine(err), "move the journal away, if it is none of a trace's; or choose another --output"
	}
	return "", ""
}

func explainInterrupt(f *Failure) bool {
	if !errors.Is(f.Err, context.Canceled) {
		return false
	}
	return f.set(Failed, "a signal (or Ctrl-C) came before the recording began", "run this again")
}

// explainNothing: a guessed cause would be worse than none.
func explainNothing(f *Failure) bool {
	return f.set(f.Code, "none that this version knows", "run this again with --verbose; if it stays, please report it")
}
