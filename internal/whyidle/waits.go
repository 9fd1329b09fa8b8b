package whyidle

import (
	"strconv"
	"strings"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// What a thread waited for, if it is not only a system call.
const (
	ForGIL   = "gil"   // Python's global interpreter lock
	ForGPU   = "gpu"   // an event of the GPU's driver
	ForSleep = "sleep" // a time
	ForLock  = "futex" // a lock or a condition; threads wait for most of what they do for each other so
)

// waitEvents is AMDKFD_IOC_WAIT_EVENTS, the request of the ioctl that waits for the GPU.
const waitEvents = 0xc0184b0c

// syscallNames are the system calls on x86-64 in which threads often wait.
var syscallNames = map[int64]string{
	0: "read", 1: "write", 7: "poll", 9: "mmap", 10: "mprotect", 11: "munmap", 16: "ioctl", 17: "pread64", 18: "pwrite64", 19: "readv", 20: "writev",
	23: "select", 24: "sched_yield", 28: "madvise", 34: "pause", 42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom", 46: "sendmsg",
	47: "recvmsg", 61: "wait4", 72: "fcntl", 73: "flock", 74: "fsync", 75: "fdatasync", 128: "rt_sigtimedwait", 202: "futex", 208: "io_getevents",
	232: "epoll_wait", 247: "waitid", 257: "openat", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait", 288: "accept4", 426: "io_uring_enter",
	441: "epoll_pwait2", 449: "futex_waitv",
}

// WaitsFor returns what a blocked thread waited for: one of the constants, or the name of the system call;
// "": it blocked outside of a system call.
func WaitsFor(c *Cause, frames []Frame) string {
	switch {
	case c.GIL, waitsForGIL(frames):
		return ForGIL
	case c.Syscall == ioctl && c.Request == waitEvents, waitsForGPU(frames):
		return ForGPU
	case c.Syscall == nanosleep, c.Syscall == clockNanosleep:
		return ForSleep
	case c.Syscall == tracedb.Null:
		return ""
	}
	if name, known := syscallNames[c.Syscall]; known {
		return name
	}
	return "system call " + strconv.FormatInt(c.Syscall, 10)
}

// waitsForGPU reports whether a stack waits in the driver's library for an event of the GPU.
func waitsForGPU(frames []Frame) bool {
	for _, f := range frames {
		if strings.HasPrefix(f.Name, "hsaKmtWaitOn") {
			return true
		}
	}
	return false
}
