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

// Snapshot is a thread at one moment.
type Snapshot struct {
	TID   int
	Regs  Regs
	Base  uint64 // address of Stack[0]
	Stack []byte

	// The stop lasted at least Stopped, counted from when we saw it, and at
	// most Time, counted from the request: a thread that waits for a CPU
	// stops only when it gets one.
	Time, Stopped time.Duration
}

// Stopped, if tests set it, is called when StopOnce has stopped its thread.
var Stopped func() error

// StopOnce stops one thread of process pid, copies its registers and the top of its stack,
// and lets it go on at once. cpu is where it last ran, -1 if unknown. A
// process stopped by a signal stays so: its threads are looked at all the same. The
// stack is copied as far as its pages are there. filtered: the thread may have seccomp
// filters, which are asked whether it can go on with a wait.
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
		return nil, fmt.Errorf("look at thread %d: %w", tid, err)
	}
	return s, nil
}

// stopPatience is how long the thread gets to stop. No other will do, on a loaded
// machine it may wait that long for a CPU, and given up its call may return EINTR.
const stopPatience = 2 * time.Second
