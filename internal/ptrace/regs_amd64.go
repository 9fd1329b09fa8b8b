package ptrace

import "golang.org/x/sys/unix"

// Regs are a thread's general registers as NT_PRSTATUS has them.
type Regs = unix.PtraceRegs

// Restart codes: how an interrupted syscall that has not returned yet asks
// the kernel's signal code to go on (include/linux/errno.h). User space
// never sees them, a tracer does.
const (
	eRestartSys    = -512
	eRestartNoIntr = -513
	eRestartNoHand = -514
	eRestartBlock  = -516
	eIntr          = -4
)

// Where tells what a stopped thread was doing.
type Where int

const (
	// User: in user mode, or just back from a syscall with its result.
	User Where = iota
	// Waiting: in a syscall that can be issued again as it was.
	Waiting
	// TimedWait: in a syscall whose remaining time only the kernel's restart
	// block knows: an rt_sigreturn would lose it (restart_syscall(2)).
	TimedWait
)

// InSyscall reports whether the registers are those of a syscall entered and
// not yet left.
func InSyscall(r *Regs) bool { return int64(r.Orig_rax) >= 0 }

// Resume returns the registers with which the thread goes on by itself from
// user mode, doing what the kernel's restart logic would have done, and what
// the thread was doing. It is pure.
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
	out.Rip -= 2 // back onto the two bytes of `syscall`
	out.Rax = r.Orig_rax
	return out, where
}

// untimed reports whether the wait in r has a restart block but does not need
// it: no time-out at all, or an absolute one.
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

// Reissue has the kernel issue a call again that it would go on with by
// restart_syscall(2). It reports whether r was changed.
func Reissue(r *Regs) bool {
	if !InSyscall(r) || int64(r.Rax) != eRestartBlock || r.Orig_rax == unix.SYS_RESTART_SYSCALL {
		return false
	}
	code := int64(eRestartNoHand)
	r.Rax = uint64(code)
	return true
}

// Cure repairs what an interrupt alone does to a thread: epoll_wait,
// sigtimedwait and socket calls with a time-out would return EINTR without a
// signal. As -ERESTARTNOHAND the call is issued again, unless a handler runs,
// and then EINTR is the truth. It reports whether r was changed.
func Cure(r *Regs) bool {
	if !InSyscall(r) || int64(r.Rax) != eIntr || !reissuable(r.Orig_rax) {
		return false
	}
	code := int64(eRestartNoHand)
	r.Rax = uint64(code)
	return true
}

// reissuable is false for the calls that have done half their work when they
// return EINTR: the descriptor is gone, the connection is under way.
func reissuable(nr uint64) bool {
	return nr != unix.SYS_CLOSE && nr != unix.SYS_CONNECT
}
