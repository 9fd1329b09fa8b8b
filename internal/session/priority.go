package session

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// drainNice is the drain's priority: on a machine without a free CPU the
// application goes first. What the ring cannot hold meanwhile is counted as lost.
const drainNice = 5

// yieldToApplication lowers the calling goroutine's thread for the rest of its
// life: locked and never unlocked, it ends with the goroutine. Only the drain
// may do so; a thread that holds a target stopped must be fast.
func yieldToApplication() {
	runtime.LockOSThread()
	// In vain where our own priority is lower already.
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && 20-now < drainNice {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, drainNice)
	}
}
