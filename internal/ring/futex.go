package ring

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From linux/futex.h. Not the _PRIVATE forms: the words are shared between processes.
const (
	futexWait = 0
	futexWake = 1
)

// sleepOn sleeps while *word == value, at most for timeout. It may return early
// (a signal, another's wake): callers check their condition again.
func sleepOn(word *uint32, value uint32, timeout time.Duration) {
	if timeout <= 0 {
		return
	}
	limit := unix.NsecToTimespec(timeout.Nanoseconds())
	// Every outcome means "look again": woken, EAGAIN, EINTR, ETIMEDOUT.
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait,
		uintptr(value), uintptr(unsafe.Pointer(&limit)), 0, 0)
}

// bump increments a futex word and wakes all threads that sleep on it.
func bump(word *uint32, value uint32) {
	atomic.StoreUint32(word, value)
	const everybody = 1<<31 - 1
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, everybody, 0, 0, 0)
}
