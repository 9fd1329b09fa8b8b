package ptrace

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// wait blocks until the thread's next stop, or until the alarm that the
// caller has set. It waits for this thread alone and with __WALL: other
// children are not ours to reap.
//
// It blocks in the kernel because this is the fastest: polling costs a timer
// interrupt (65 µs instead of 33 µs for a stop, measured), and spinning
// starves a tracee that shares our CPU while we run at real-time priority.
// The call is raw: the Go scheduler must not take our P away here.
func (c *Tracee) wait() (Stop, error) {
	c.alarm.listen()
	defer c.alarm.restore()
	for {
		r, _, errno := unix.RawSyscall6(unix.SYS_WAIT4, uintptr(c.TID),
			uintptr(unsafe.Pointer(&c.status)), unix.WALL, 0, 0, 0)
		switch {
		case errno == unix.EINTR && c.alarm.rung():
			return Stop{}, ErrNoStop
		case errno == unix.EINTR: // an alarm of before it was set anew
		case errno != 0: // ECHILD
			return Stop{Kind: Exited}, errRenamed
		case int(r) == c.TID:
			return Classify(c.status), nil
		}
	}
}
