package cpusample

import (
	"slices"

	"golang.org/x/sys/unix"
)

// endsFutex are the system calls with which a thread wakes one that waits for a futex: by a wake, by its own end, by a signal.
var endsFutex = []int{
	unix.SYS_FUTEX, unix.SYS_FUTEX_WAKE, unix.SYS_FUTEX_REQUEUE, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL,
}

// privateFutex is the flag of a futex's operation by which only threads of the same process use it (futex(2)).
const privateFutex = 128

// isWaker reports whether the thread on which another one was woken, in a system call waker, has woken it. Timers and devices
// wake in interrupts, which come upon whoever runs: upon user code (system call below 0), or into a system call that
// cannot be the cause. same: they are threads of one process.
func isWaker(waker int, w *kernelWait, same bool) bool {
	switch w.Syscall {
	case unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP:
		return false // or by a signal, which is rare
	case unix.SYS_FUTEX:
		return slices.Contains(endsFutex, waker) && (same || w.Argument1&privateFutex == 0)
	case unix.SYS_FUTEX_WAITV, unix.SYS_FUTEX_WAIT:
		return slices.Contains(endsFutex, waker)
	}
	return waker >= 0
}
