package target

import (
	"errors"
	"fmt"
)

// Errors of this package wrap one of these sentinels and add the facts that were read;
// package failure adds cause and fix.
var (
	ErrProc        = errors.New("/proc shows another pid namespace")
	ErrNoProc      = errors.New("no /proc in its root")
	ErrGone        = errors.New("no such process")
	ErrThreadGone  = errors.New("no such thread")
	ErrExec        = errors.New("the process has executed another program")
	ErrDenied      = errors.New("permission denied")
	ErrTraced      = errors.New("already traced")
	ErrStopped     = errors.New("process is stopped")
	ErrAsleep      = errors.New("all its threads sleep uninterruptibly")
	ErrZombie      = errors.New("process has exited (zombie)")
	ErrKernel      = errors.New("kernel thread")
	ErrNoHSA       = errors.New("no ROCm runtime is loaded")
	ErrStatic      = errors.New("statically linked program")
	ErrMusl        = errors.New("musl libc")
	ErrLibc        = errors.New("unsupported C library")
	ErrArch        = errors.New("unsupported architecture")
	ErrSeccomp     = errors.New("seccomp filter in the way")
	ErrShadowStack = errors.New("shadow stack is on")
	ErrBusy        = errors.New("it is locked")
	ErrLoading     = errors.New("libraries are being loaded")
	ErrMalformed   = errors.New("malformed")
)

// IsAbsent reports whether an error says that a process is not there, or not any more: it has
// ended, is ending, has become another one, or is a thread of the kernel.
func IsAbsent(err error) bool {
	for _, absent := range []error{ErrGone, ErrZombie, ErrKernel, ErrExec} {
		if errors.Is(err, absent) {
			return true
		}
	}
	return false
}

// TracedError is an ErrTraced that names the tracer.
type TracedError struct {
	PID    int
	Tracer int    // 0: in a pid namespace that the tool cannot see
	Name   string // its command name, if it could be read
}

func (e *TracedError) Error() string {
	switch {
	case e.Tracer == 0:
		return fmt.Sprintf("pid %d is %v, by a process outside this pid namespace", e.PID, ErrTraced)
	case e.Name == "":
		return fmt.Sprintf("pid %d is %v by pid %d", e.PID, ErrTraced, e.Tracer)
	}
	return fmt.Sprintf("pid %d is %v by %s (pid %d)", e.PID, ErrTraced, e.Name, e.Tracer)
}

func (e *TracedError) Unwrap() error { return ErrTraced }

// DeniedError is an ErrDenied with the facts that can explain it. Only facts that were
// read are set.
type DeniedError struct {
	PID         int
	Op          string // the refused operation
	Err         error  // the kernel's error
	PtraceScope int    // kernel.yama.ptrace_scope; -1: this kernel has none
	UID, Owner  int    // user of the tool, and of the target
	SysPtrace   bool   // CAP_SYS_PTRACE is effective in the tool
	NoOverride  bool   // CAP_DAC_OVERRIDE is not
	Undumpable  bool   // the target's files in /proc belong to root, not to its user (proc(5))
	UserNS      bool   // the target is in another user namespace
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s of pid %d: %v", e.Op, e.PID, e.Err)
}

func (e *DeniedError) Unwrap() []error { return []error{ErrDenied, e.Err} }

// AsleepError is an ErrAsleep that says where in the kernel the target sleeps.
type AsleepError struct {
	PID   int
	Where string // kernel function in which the first thread sleeps; "": unknown
}

func (e *AsleepError) Error() string { return fmt.Sprintf("pid %d: %v", e.PID, ErrAsleep) }

func (e *AsleepError) Unwrap() error { return ErrAsleep }

// BusyError is an ErrBusy that names the holder of the lock.
type BusyError struct {
	PID    int
	Holder int // pid in the tool's namespace; 0: unknown
}

func (e *BusyError) Error() string {
	if e.Holder == 0 {
		return fmt.Sprintf("pid %d: %v", e.PID, ErrBusy)
	}
	return fmt.Sprintf("pid %d: %v (pid %d)", e.PID, ErrBusy, e.Holder)
}

func (e *BusyError) Unwrap() error { return ErrBusy }
