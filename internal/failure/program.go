package failure

import (
	"errors"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

func explainProgram(f *Error) bool {
	switch {
	case errors.Is(f.Err, target.ErrKernel):
		return f.set(Unsuitable, "it is a kernel thread", "give the pid of a GPU process")
	case errors.Is(f.Err, target.ErrStatic):
		return f.set(Unsuitable, "it is linked statically: no library can be loaded into it", "trace a dynamically linked build")
	case errors.Is(f.Err, target.ErrMusl), errors.Is(f.Err, target.ErrLibc):
		return f.set(Unsuitable, BareText(f.Err), "none for this build: trace one that is linked with glibc")
	case errors.Is(f.Err, target.ErrArch):
		return f.set(Unsuitable, BareText(f.Err), "none for this build: trace one for x86-64")
	case errors.Is(f.Err, ptrace.ErrFilterHidden):
		return f.set(Unsuitable, BareText(f.Err), "run this as root on the host, or in a privileged container: they can be read there")
	case errors.Is(f.Err, target.ErrSeccomp):
		return f.set(Unsuitable, BareText(f.Err), "relax the seccomp profile of its container")
	case errors.Is(f.Err, target.ErrShadowStack):
		return f.set(Unsuitable, "it runs with a shadow stack: a stopped thread cannot be sent on a detour",
			"none while it runs; without the tunable that turned shadow stacks on, its next start can be traced")
	case errors.Is(f.Err, target.ErrNoProc):
		return f.set(Unsuitable, "no /proc is mounted where it runs, and the payload sees the process's threads through that",
			"mount one there: nsenter -m -p -t PID mount -t proc proc /proc")
	case errors.Is(f.Err, target.ErrExec):
		return f.set(Failed, "it has executed another program meanwhile", "run this again")
	case errors.Is(f.Err, target.ErrMalformed), errors.Is(f.Err, ring.ErrMalformed), errors.Is(f.Err, ring.ErrCorrupt):
		return f.set(Failed, "its /proc or ELF data is inconsistent (corrupted or hostile process)",
			"look at the process first")
	case errors.Is(f.Err, target.ErrLoading):
		return f.set(Failed, "it has been loading libraries for a second", "run this again")
	}
	return false
}

func explainRuntime(f *Error) bool {
	switch {
	case errors.Is(f.Err, target.ErrNoHSA):
		return f.set(Unsuitable, "libhsa-runtime64 is not mapped: it is no ROCm process, or has not used the GPU yet",
			"give the pid of a GPU process, or of its server's front end (without --no-tree)")
	case errors.Is(f.Err, ring.ErrVersion):
		return f.set(Unsuitable, BareText(f.Err)+": another version of rtl-attach left its payload there",
			"use that version of rtl-attach, or restart the process when it suits")
	}
	return false
}
