package ptrace

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// wait blocks until the thread's next stop, or until the alarm that the caller has set
// expires. It waits for this thread only, with __WALL: other packages reap the other
// children.
//
// It blocks in the kernel because this is fastest: polling costs a timer interrupt
// (65 µs instead of 33 µs for a stop, measured), and spinning starves a tracee on the
// same CPU while the tracer runs at real-time priority. The call is raw: the Go
// scheduler must not take the P away here.
func (c *Tracee) wait() (Stop, error) {
	c.alarm.blockOthers()
	defer c.alarm.restoreMask()
	for {
		r, _, errno := unix.RawSyscall6(unix.SYS_WAIT4, uintptr(c.TID),
			uintptr(unsafe.Pointer(&c.status)), unix.WALL, 0, 0, 0)
		switch {
		case errno == unix.EINTR && c.alarm.expired():
			return Stop{}, ErrNoStop
		case errno == unix.EINTR: // a signal of the alarm's earlier setting
		case errno != 0: // ECHILD
			return Stop{Kind: Exited}, errRenamed
		case int(r) == c.TID:
			return Classify(c.status), nil
		}
	}
}
