package ptrace

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// HoldLimit is the longest time for which a job may stop a tracee. Every wait in a
// job has a deadline far below it. The limit is for the case that none of the tool's
// code can run, because the tracer's thread sleeps in an uninterruptible call and the
// Go runtime waits for that thread. Tests that delay a tracee raise it.
var HoldLimit = 25 * time.Second

// deadman is a kernel timer that kills this process: the kernel then detaches its
// tracees, and they run on. It also works while this process is stopped.
type deadman struct {
	id      int32
	created bool
}

func (d *deadman) create() error {
	if d.created {
		return nil
	}
	event := struct { // struct sigevent
		value         uint64
		signo, notify int32
		_             [48]byte
	}{signo: int32(unix.SIGKILL), notify: 0} // SIGEV_SIGNAL
	if _, _, errno := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC,
		uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&d.id))); errno != 0 {
		return fmt.Errorf("create a timer: %w", errno)
	}
	d.created = true
	return nil
}

// set arms the timer to kill this process after limit; 0 disarms it.
func (d *deadman) set(limit time.Duration) {
	if !d.created {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(limit.Nanoseconds())}
	unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(d.id), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

func (d *deadman) free() {
	if d.created {
		unix.RawSyscall(unix.SYS_TIMER_DELETE, uintptr(d.id), 0, 0)
		d.created = false
	}
}
