package session

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/inject"
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
		{target.DeniedError{PtraceScope: -1, UID: 7, Owner: 7, Undumpable: true}, "it is not dumpable", "sudo"},
		{target.DeniedError{PtraceScope: -1, SysPtrace: true, UserNS: true}, "another user namespace", "host"},
		{target.DeniedError{PtraceScope: -1, SysPtrace: true, Op: "trace", Err: unix.EPERM}, "the kernel refused to trace", "host"},
	} {
		f := explain("trace", 1, &tc.denied, untouched)
		if f.Code != NotPermitted || !strings.Contains(f.Cause, tc.cause) || !strings.Contains(f.Fix, tc.fix) {
			t.Errorf("%+v: cause %q, fix %q, code %d", tc.denied, f.Cause, f.Fix, f.Code)
		}
	}
}

// TestLimits: a call that failed in the target names the limit to be looked at.
func TestLimits(t *testing.T) {
	for errno, fix := range map[unix.Errno]string{unix.EAGAIN: "pids.max", unix.ENOMEM: "--as", unix.EACCES: "--verbose"} {
		f := explain("attach to", 1, &inject.BootError{Call: "clone", Err: errno}, restored)
		if f.Code != Failed || !strings.Contains(f.Cause, "clone in the target") || !strings.Contains(f.Fix, fix) {
			t.Errorf("%v: cause %q, fix %q, code %d", errno, f.Cause, f.Fix, f.Code)
		}
	}
}
