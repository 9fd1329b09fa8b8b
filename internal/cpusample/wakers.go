package cpusample

import (
	"slices"

	"golang.org/x/sys/unix"
)

// endsFutex are the system calls with which a thread wakes one that waits for a futex: by a wake, by its own end, by a signal.
var endsFutex = []int{
	unix.SYS_FUTEX, unix.SYS_FUTEX_WAKE, unix.SYS_FUTEX_REQUEUE, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL,
	unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PIDFD_SEND_SIGNAL,
}

// isWaker reports whether the thread on which another one was woken has woken it. Timers and devices wake in
// interrupts, which come upon whoever runs: upon user code (system call below 0), or into a system call that
// cannot be the cause.
func isWaker(waker, sleeper int) bool {
	switch sleeper {
	case unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP:
		return slices.Contains([]int{unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL}, waker)
	case unix.SYS_FUTEX, unix.SYS_FUTEX_WAITV, unix.SYS_FUTEX_WAIT:
		return slices.Contains(endsFutex, waker)
	}
	return waker >= 0
}
