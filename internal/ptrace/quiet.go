package ptrace

import (
	"runtime/debug"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// gcOff counts the running Quiet calls: the garbage collector's setting is global to
// the process.
var gcOff struct {
	sync.Mutex
	n, percent int
}

// Quiet runs fn, which stops a thread that last ran on cpu (negative: unknown), with
// the fewest delays that the tool can get: no garbage collection, real-time priority
// if permitted, and on that CPU, where waking the tracee needs no inter-processor
// interrupt. It restores all three afterwards. It runs on the tracer's thread.
func Quiet(cpu int, fn func() error) error {
	gcOff.Lock()
	if gcOff.n++; gcOff.n == 1 {
		gcOff.percent = debug.SetGCPercent(-1)
	}
	gcOff.Unlock()
	defer func() {
		gcOff.Lock()
		if gcOff.n--; gcOff.n == 0 {
			debug.SetGCPercent(gcOff.percent)
		}
		gcOff.Unlock()
	}()

	if cpu >= 0 {
		var before, one unix.CPUSet
		one.Set(cpu)
		if unix.SchedGetaffinity(0, &before) == nil && unix.SchedSetaffinity(0, &one) == nil {
			defer func() { _ = unix.SchedSetaffinity(0, &before) }()
		}
	}
	before, err := unix.SchedGetAttr(0, 0)
	if err == nil && before.Policy == unix.SCHED_NORMAL {
		fifo := unix.SchedAttr{
			Size: uint32(unsafe.Sizeof(unix.SchedAttr{})), Policy: unix.SCHED_FIFO, Priority: 1,
		}
		if unix.SchedSetAttr(0, &fifo, 0) == nil {
			defer func() { _ = unix.SchedSetAttr(0, before, 0) }()
		}
	}
	return fn()
}
