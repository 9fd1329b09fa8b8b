package ptrace

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// alarmSignal interrupts a blocking wait4 on the tracer's thread. The Go runtime
// handles every real-time signal and drops it if no code asked for it. It installs
// its handler with SA_RESTART, which would resume the wait.
const alarmSignal = unix.Signal(64)

// kernelSigaction is the kernel's struct sigaction of rt_sigaction(2) on x86-64.
type kernelSigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// interruptible removes SA_RESTART from the runtime's handler. os/signal sets it
// again when the program asks for all signals.
func interruptible() error {
	const restart = 0x10000000 // SA_RESTART
	var sa kernelSigaction
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(alarmSignal), 0,
		uintptr(unsafe.Pointer(&sa)), 8, 0, 0); errno != 0 {
		return fmt.Errorf("read the action of signal %d: %w", alarmSignal, errno)
	}
	if sa.flags&restart == 0 {
		return nil
	}
	sa.flags &^= restart
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(alarmSignal),
		uintptr(unsafe.Pointer(&sa)), 0, 8, 0, 0); errno != 0 {
		return fmt.Errorf("set the action of signal %d: %w", alarmSignal, errno)
	}
	return nil
}

// alarm is a timer that signals the thread that created it.
type alarm struct {
	id      int32
	created bool
	due     int64 // CLOCK_MONOTONIC
	spec    unix.ItimerSpec
	allBut  uint64 // signal mask while waiting: everything but alarmSignal
	saved   uint64 // signal mask before
}

// create creates the timer (timer_create(2), SIGEV_THREAD_ID).
func (a *alarm) create() error {
	if a.created {
		return nil
	}
	if err := interruptible(); err != nil {
		return err
	}
	event := struct { // struct sigevent
		value         uint64
		signo, notify int32
		tid           int32
		_             [44]byte
	}{signo: int32(alarmSignal), notify: 4, tid: int32(unix.Gettid())} // SIGEV_THREAD_ID
	if _, _, errno := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC,
		uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&a.id))); errno != 0 {
		return fmt.Errorf("create a timer: %w", errno)
	}
	a.created = true
	return nil
}

// free deletes the timer.
func (a *alarm) free() {
	if a.created {
		unix.RawSyscall(unix.SYS_TIMER_DELETE, uintptr(a.id), 0, 0)
		a.created = false
	}
}

// set arms the timer to expire after d and every millisecond from then on: the
// first signal may arrive just before the wait that it is meant to interrupt.
func (a *alarm) set(d time.Duration) {
	d = max(d, 1) // zero would stop the timer
	a.spec.Value = unix.NsecToTimespec(d.Nanoseconds())
	a.spec.Interval = unix.NsecToTimespec(time.Millisecond.Nanoseconds())
	a.settime()
	a.due = monotonic() + d.Nanoseconds()
}

// expired reports whether the time set has passed.
func (a *alarm) expired() bool { return monotonic() >= a.due }

// blockOthers blocks all signals of the thread but the alarm's, until restoreMask.
// The alarm's may have been blocked: a program inherits its parent's mask. Any
// other signal that arrives together with it has the lower number, so the kernel
// handles it first; with SA_RESTART, as the Go runtime's preemption has it (SIGURG),
// the kernel restarts the wait, and the alarm interrupts nothing (measured: a thread
// short of CPU time loses every alarm this way).
func (a *alarm) blockOthers() {
	a.allBut = ^(uint64(1) << (alarmSignal - 1))
	sigprocmask(&a.allBut, &a.saved)
}

// restoreMask restores the mask from before blockOthers.
func (a *alarm) restoreMask() { sigprocmask(&a.saved, nil) }

func sigprocmask(mask, before *uint64) {
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(mask)),
		uintptr(unsafe.Pointer(before)), unsafe.Sizeof(*mask), 0, 0)
}

func (a *alarm) settime() {
	unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(a.id), 0, uintptr(unsafe.Pointer(&a.spec)), 0, 0, 0)
}

func monotonic() int64 {
	var ts unix.Timespec
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}
