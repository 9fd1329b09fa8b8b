package ptrace

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// HoldLimit is how long a job may hold a tracee. Every wait in it has a deadline
// far below; this is for the case that no code of ours runs any more, because the
// tracer's thread sleeps in a call that nothing interrupts and the Go runtime
// waits for it. Tests that hold a tracee up give it longer.
var HoldLimit = 25 * time.Second

// A deadman is a timer of the kernel's that kills this process: its tracees then
// go on. It works also where the process is stopped.
type deadman struct {
	id   int32
	made bool
}

func (d *deadman) make() error {
	if d.made {
		return nil
	}
	event := struct { // struct sigevent
		value         uint64
		signo, notify int32
		_             [48]byte
	}{signo: int32(unix.SIGKILL), notify: 0} // SIGEV_SIGNAL
	if _, _, errno := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC,
		uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&d.id))); errno != 0 {
		return fmt.Errorf("make a timer: %w", errno)
	}
	d.made = true
	return nil
}

// set makes the process die after limit; 0: it may live.
func (d *deadman) set(limit time.Duration) {
	if !d.made {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(limit.Nanoseconds())}
	unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(d.id), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

func (d *deadman) free() {
	if d.made {
		unix.RawSyscall(unix.SYS_TIMER_DELETE, uintptr(d.id), 0, 0)
		d.made = false
	}
}
