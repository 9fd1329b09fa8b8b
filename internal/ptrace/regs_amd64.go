package ptrace

import "golang.org/x/sys/unix"

// Regs holds a thread's general registers in the layout of NT_PRSTATUS.
type Regs = unix.PtraceRegs

// Restart codes are the results by which an interrupted syscall that has not returned
// yet tells the kernel's signal code how to continue (include/linux/errno.h). User
// space never sees them; a tracer does.
const (
	eRestartSys    = -512
	eRestartNoIntr = -513
	eRestartNoHand = -514
	eRestartBlock  = -516
	eIntr          = -4
)

// Where is what a stopped thread was doing.
type Where int

const (
	// User means in user mode, or just back from a syscall with its result.
	User Where = iota
	// Waiting means in a syscall that can be issued again with the same registers.
	Waiting
	// TimedWait means in a syscall whose remaining time is only in the kernel's
	// restart block: an rt_sigreturn would lose it (restart_syscall(2)).
	TimedWait
)

// InSyscall reports whether r was read inside a syscall: entered and not yet left.
func InSyscall(r *Regs) bool { return int64(r.Orig_rax) >= 0 }

// Resume returns the registers with which the thread continues from user mode as the
// kernel's restart logic would have continued it, and what the thread was doing. It
// is pure.
func Resume(r *Regs) (Regs, Where) {
	out := *r
	if !InSyscall(r) {
		return out, User
	}
	where := Waiting
	switch int64(r.Rax) {
	case eRestartBlock:
		if !untimed(r) {
			where = TimedWait
		}
	case eIntr:
		if !reissuable(r.Orig_rax) {
			return out, User
		}
	case eRestartSys, eRestartNoIntr, eRestartNoHand:
	default:
		return out, User
	}
	if r.Orig_rax == unix.SYS_RESTART_SYSCALL {
		where = TimedWait
	}
	out.Rip -= 2 // back to the two-byte `syscall` instruction
	out.Rax = r.Orig_rax
	return out, where
}

// untimed reports whether the wait in r has a restart block but does not need it,
// because it has no time-out, or an absolute one.
func untimed(r *Regs) bool {
	const futexCmdMask, futexWaitBitset = 0x7f, 9
	switch r.Orig_rax {
	case unix.SYS_POLL:
		return int32(r.Rdx) < 0
	case unix.SYS_FUTEX:
		return r.Rsi&futexCmdMask == futexWaitBitset
	}
	return false
}

// ReissueTimed changes the restart code of a call that the kernel would continue by
// restart_syscall(2), so that the kernel issues the call itself again. It reports
// whether it changed r.
func ReissueTimed(r *Regs) bool {
	if !InSyscall(r) || int64(r.Rax) != eRestartBlock || r.Orig_rax == unix.SYS_RESTART_SYSCALL {
		return false
	}
	code := int64(eRestartNoHand)
	r.Rax = uint64(code)
	return true
}

// RestartEINTR replaces the EINTR that PTRACE_INTERRUPT alone causes: epoll_wait,
// sigtimedwait and socket calls with a time-out would return it without a signal.
// With -ERESTARTNOHAND the kernel issues the call again, unless a signal handler
// runs; then the call correctly returns EINTR. RestartEINTR reports whether it
// changed r.
func RestartEINTR(r *Regs) bool {
	if !InSyscall(r) || int64(r.Rax) != eIntr || !reissuable(r.Orig_rax) {
		return false
	}
	code := int64(eRestartNoHand)
	r.Rax = uint64(code)
	return true
}

// reissuable is false for close and connect, which have done half their work when they
// return EINTR: the descriptor is closed, the connection is being made.
func reissuable(nr uint64) bool {
	return nr != unix.SYS_CLOSE && nr != unix.SYS_CONNECT
}
