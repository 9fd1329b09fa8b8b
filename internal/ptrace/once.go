package ptrace

import (
	"fmt"
	"time"
)

const (
	snapshotMax = 64 << 10 // bytes of stack
	belowSP     = 128      // the red zone, where a leaf function may keep registers
	page        = 4096
)

// Snapshot holds the registers and the top of the stack of a thread at one moment.
type Snapshot struct {
	TID   int
	Regs  Regs
	Base  uint64 // address of Stack[0]
	Stack []byte

	// The stop lasted at least Stopped, counted from when the tool observed it, and
	// at most Time, counted from the request: a thread that waits for a CPU stops
	// only when it gets one.
	Time, Stopped time.Duration
}

// Stopped is a hook for tests: StopOnce calls it, if set, when its thread has stopped.
var Stopped func() error

// StopOnce stops thread tid of process pid, copies its registers and the top of its
// stack, and detaches at once. cpu is the CPU on which it last ran, -1 if unknown. If
// a signal has stopped the process, it stays stopped; StopOnce works all the same.
// It copies the stack up to the first page that is neither in memory nor in swap.
// filtered means that the thread may have seccomp filters: StopOnce then checks
// whether they allow the kernel to continue a wait by restart_syscall(2).
func (t *Tracer) StopOnce(pid, tid, cpu int, filtered bool) (*Snapshot, error) {
	s := &Snapshot{TID: tid, Stack: make([]byte, snapshotMax)}
	stack := newStackReader(pid, tid)
	defer stack.close()
	var filters *Filters
	if filtered {
		filters = &Filters{}
	}
	err := t.Do(func() error {
		c := &Tracee{PID: pid, TID: tid}
		return Quiet(cpu, func() error {
			if err := c.Seize(); err != nil {
				return err
			}
			begin := time.Now()
			_, err := c.Interrupt(stopPatience)
			seen := time.Now()
			if err != nil {
				return err
			}
			if filtered {
				err = c.restartIfAllowed(filters)
			}
			if err == nil && Stopped != nil {
				err = Stopped()
			}
			if err == nil {
				err = c.ReadRegs()
			}
			if err == nil {
				s.Regs = c.Regs
				s.Base = s.Regs.Rsp - belowSP
				s.Stack = s.Stack[:stack.read(s.Base, s.Regs.Rsp, s.Stack)]
			}
			if rerr := c.Release(); err == nil {
				err = rerr
			}
			s.Time, s.Stopped = time.Since(begin), time.Since(seen)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("copy the stack of thread %d: %w", tid, err)
	}
	return s, nil
}

// stopPatience is how long StopOnce waits for the thread to stop. It cannot choose
// another thread; on a loaded machine a thread may wait that long for a CPU; and if
// the tool gives it up, its system call may return EINTR.
const stopPatience = 2 * time.Second
