package failure

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// TestDenial: what is known of a refusal is said, and nothing else.
func TestDenial(t *testing.T) {
	for _, tc := range []struct {
		denied     target.DeniedError
		cause, fix string
	}{
		{target.DeniedError{PtraceScope: 1, UID: 7, Owner: 7}, "kernel.yama.ptrace_scope = 1 and this user lacks CAP_SYS_PTRACE", "sudo"},
		{target.DeniedError{PtraceScope: 2, UID: 7, Owner: 7}, "kernel.yama.ptrace_scope = 2 and this user lacks CAP_SYS_PTRACE", "sudo"},
		{target.DeniedError{PtraceScope: 3, SysPtrace: true}, "kernel.yama.ptrace_scope = 3: nobody may trace until the next boot", "reboot"},
		{target.DeniedError{PtraceScope: 3, UID: 7, Owner: 7}, "kernel.yama.ptrace_scope = 3: nobody may trace until the next boot", "reboot"},
		{target.DeniedError{PtraceScope: -1, UID: 7, Owner: 0}, "it belongs to uid 0, and uid 7 lacks CAP_SYS_PTRACE", "sudo"},
		{target.DeniedError{PtraceScope: 1, UID: 7, Owner: 0}, "uid 7 lacks CAP_SYS_PTRACE (kernel.yama.ptrace_scope = 1 asks for that, too)", "sudo"},
		{target.DeniedError{PtraceScope: -1, UID: 7, Owner: 7, Undumpable: true}, "it is not dumpable", "sudo"},
		{target.DeniedError{PtraceScope: 2, UID: 7, Owner: 7, Undumpable: true}, "it is not dumpable", "sudo"},
		{target.DeniedError{PtraceScope: -1, SysPtrace: true, UserNS: true}, "another user namespace", "host"},
		{target.DeniedError{PtraceScope: -1, SysPtrace: true, NoOverride: true, UID: 7}, "uid 7, which lacks CAP_DAC_OVERRIDE", "setcap"},
		{target.DeniedError{PtraceScope: -1, SysPtrace: true, NoOverride: true, UID: 7, Owner: 7, Undumpable: true}, "CAP_DAC_OVERRIDE", "setcap"},
		{target.DeniedError{PtraceScope: -1, SysPtrace: true, Op: "trace", Err: unix.EPERM}, "the kernel refused to trace", "host"},
	} {
		f := Explain("trace", 1, &tc.denied, Untouched)
		if f.Code != NotPermitted || !strings.Contains(f.Cause, tc.cause) || !strings.Contains(f.Fix, tc.fix) {
			t.Errorf("%+v: cause %q, fix %q, code %d", tc.denied, f.Cause, f.Fix, f.Code)
		}
	}
}

// TestTargetErrors: whatever can stand in the way is explained, and with its code.
func TestTargetErrors(t *testing.T) {
	for err, code := range map[error]ExitCode{
		&target.DeniedError{PtraceScope: -1}: NotPermitted, &target.TracedError{}: NotPermitted, &target.BusyError{}: NotPermitted,
		target.ErrGone: NotPermitted, target.ErrStopped: NotPermitted, target.ErrZombie: NotPermitted,
		target.ErrKernel: Unsuitable, target.ErrNoHSA: Unsuitable, target.ErrStatic: Unsuitable,
		target.ErrMusl: Unsuitable, target.ErrLibc: Unsuitable, target.ErrArch: Unsuitable,
		target.ErrSeccomp: Unsuitable, target.ErrShadowStack: Unsuitable, target.ErrNoProc: Unsuitable,
		ring.ErrNoAnswer: Failed, target.ErrExec: Failed, target.ErrLoading: Failed, target.ErrMalformed: Failed,
	} {
		f := Explain("trace", 1, err, Untouched)
		if f.Code != code || strings.Contains(f.Cause, "none that this version knows") {
			t.Errorf("%v: code %d, want %d; cause %q", err, f.Code, code, f.Cause)
		}
	}
}

// TestLimits: a call that failed in the target names the limit to be looked at.
func TestLimits(t *testing.T) {
	for errno, fix := range map[unix.Errno]string{unix.EAGAIN: "pids.max", unix.ENOMEM: "--as", unix.EACCES: "--verbose"} {
		f := Explain("attach to", 1, &inject.BootError{Call: "clone", Err: errno}, Restored)
		if f.Code != Failed || !strings.Contains(f.Cause, "clone in the target") || !strings.Contains(f.Fix, fix) {
			t.Errorf("%v: cause %q, fix %q, code %d", errno, f.Cause, f.Fix, f.Code)
		}
	}
}
