package ptrace

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// alarmSignal interrupts a blocking wait4 on the tracer's thread. The Go
// runtime handles every real-time signal and drops those that nobody asked
// for, but with SA_RESTART, which would resume the wait.
const alarmSignal = unix.Signal(64)

// kernelSigaction is struct sigaction as rt_sigaction(2) has it on x86-64.
type kernelSigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// interruptible takes SA_RESTART off the runtime's handler. os/signal puts it
// back when it is asked for all signals.
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

// alarm is a timer that signals the thread that made it.
type alarm struct {
	id   int32
	made bool
	due  int64 // CLOCK_MONOTONIC
	spec unix.ItimerSpec
	only uint64 // mask
	kept uint64 // mask
}

// make creates the timer (timer_create(2), SIGEV_THREAD_ID).
func (a *alarm) make() error {
	if a.made {
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
		return fmt.Errorf("make a timer: %w", errno)
	}
	a.made = true
	return nil
}

// free deletes the timer.
func (a *alarm) free() {
	if a.made {
		unix.RawSyscall(unix.SYS_TIMER_DELETE, uintptr(a.id), 0, 0)
		a.made = false
	}
}

// set lets the alarm go off after d and every millisecond from then on: the
// first signal may come just before the wait that it shall interrupt.
func (a *alarm) set(d time.Duration) {
	d = max(d, 1) // zero would stop the timer
	a.spec.Value = unix.NsecToTimespec(d.Nanoseconds())
	a.spec.Interval = unix.NsecToTimespec(time.Millisecond.Nanoseconds())
	a.settime()
	a.due = monotonic() + d.Nanoseconds()
}

// rung reports whether the alarm's time has come.
func (a *alarm) rung() bool { return monotonic() >= a.due }

// listen makes the thread deaf to all but the alarm, until the mask is restored.
// The alarm may have been blocked: a program inherits its parent's mask. Any
// other signal that comes together with it has the lower number and is handled
// first; with SA_RESTART, as the Go runtime's preemption has it (SIGURG), it
// decides that the wait begins anew, and the alarm interrupts nothing
// (measured: a thread short of CPU time loses every one of them so).
func (a *alarm) listen() {
	a.only = ^(uint64(1) << (alarmSignal - 1))
	sigprocmask(&a.only, &a.kept)
}

// restore gives the thread back the mask that listen has taken.
func (a *alarm) restore() { sigprocmask(&a.kept, nil) }

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
