package inject

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// stop seizes one thread, stops it, and runs calls on it.
func (v *threadBorrower) stop(name string, cand candidate, pts points, calls []call) error {
	if !v.stillIn(cand) {
		return notWaiting
	}
	p := Pause{TID: cand.tid, Stop: name}
	v.callsMade = false
	err := v.tr.Do(func() error {
		c := &ptrace.Tracee{PID: v.t.PID, TID: cand.tid}
		return ptrace.Quiet(cand.cpu, func() error {
			if err := c.Seize(); err != nil {
				return err
			}
			if err := at(pts.seized); err != nil {
				return errors.Join(err, unseize(c))
			}
			begin := time.Now()
			v.stopped = begin
			err := v.inStop(c, cand, pts, calls)
			p.Began, p.Time, p.Stopped = begin, time.Since(begin), time.Since(v.stopped)
			p.Used, p.Why = err == nil, err
			return err
		})
	})
	if v.callsMade { // the caller waits for the effect of the calls, as for a released thread
		v.held, p.Used, p.Why, err = false, true, nil, nil
	}
	if p.Time > 0 {
		v.pauses = append(v.pauses, p)
	}
	if errors.Is(err, ptrace.ErrDenied) {
		return v.denied(cand.tid, err)
	}
	return err
}

// denied finds out what EPERM means: the thread is ending, is or was traced, or the tool
// may not trace it.
func (v *threadBorrower) denied(tid int, err error) error {
	stat, serr := v.t.ThreadStat(tid)
	if serr != nil || stat.State == 'Z' || stat.State == 'X' {
		return ending
	}
	if status, serr := v.t.ThreadStatus(tid); serr == nil && status.TracerPID != 0 {
		return v.t.Traced(status.TracerPID)
	}
	if v.denials++; v.denials < 3 {
		return untraceable // perhaps another tracer detached a moment ago
	}
	return v.t.Denied(fmt.Sprintf("ptrace of thread %d", tid), err)
}

// unseize stops a seized thread and detaches from it: PTRACE_DETACH needs a stopped thread.
func unseize(c *ptrace.Tracee) error {
	if _, err := c.Interrupt(stepPatience); err != nil {
		return err
	}
	return c.Release()
}

// patienceFor returns how long to wait for a thread to stop. The tool can soon give up
// on a thread in a futex wait and try another; any other call might then return EINTR.
func (v *threadBorrower) patienceFor(cand candidate) time.Duration {
	if cand.class == idleFutexWait {
		return v.patience
	}
	return max(v.patience, stepPatience)
}

// inStop interrupts the thread and starts the calls. On every path it releases the
// thread with its original state, or in a chain that restores it. If the thread does not
// stop at all, the kernel detaches it when the tracer's OS thread ends.
func (v *threadBorrower) inStop(c *ptrace.Tracee, cand candidate, pts points, calls []call) error {
	stop, err := c.Interrupt(v.patienceFor(cand))
	v.stopped = time.Now()
	if err != nil {
		return err
	}
	if stop.Kind == ptrace.GroupStop {
		return errors.Join(fmt.Errorf("pid %d: %w", v.t.PID, target.ErrStopped), c.Detach())
	}
	start, err := v.prepare(c, cand, pts, calls)
	if err != nil {
		return errors.Join(err, c.Release())
	}
	return v.startChain(c, pts, &start, calls)
}

// prepare writes the chain below the thread's stack pointer, and the memory that the
// calls need. It returns the registers that start the chain; it does not change the
// thread's own state.
func (v *threadBorrower) prepare(c *ptrace.Tracee, cand candidate, pts points, calls []call) (start ptrace.Regs, err error) {
	if err := at(pts.stopped); err != nil {
		return start, err
	}
	resume, where, err := v.examine(c, cand, len(calls))
	if err != nil {
		return start, err
	}
	xstate, err := c.ReadXState()
	if err != nil {
		return start, fmt.Errorf("read vector state: %w", err)
	}
	// A signal handler that runs before the call is issued again would, without the stop,
	// have ended the call with EINTR. Callers of a futex handle spurious wakeups; callers
	// of other calls might wait for ever. (The thread may be in another wait than when it
	// was chosen.)
	v.held = v.hold || where == ptrace.TimedWait || (where == ptrace.Waiting && classOf(&c.Regs) != idleFutexWait)
	if v.held {
		calls = calls[:1] // the tool sets each call itself; the link is in case the tool dies
	}
	frame, base, start := v.libc.build(v.frame[:], &c.Regs, &resume, c.Mask, xstate, calls)
	if err := v.poke(base, frame); err != nil {
		return start, fmt.Errorf("write below the stack pointer: %w", err)
	}
	if err := at(pts.framed); err != nil {
		return start, err
	}
	if err := c.PokeText(uint64(v.textAt), v.text); err != nil {
		return start, fmt.Errorf("write the bootstrap's code: %w", err)
	}
	return start, v.noteThread(cand)
}

// startChain makes the thread do its calls: by itself, or held from call to call. It
// sets the registers after the frame, and the signal mask last; it restores them in the
// reverse order, so that a tool that dies in between leaves no thread with all signals
// blocked. Signals stay pending until the thread has its own state again.
func (v *threadBorrower) startChain(c *ptrace.Tracee, pts points, start *ptrace.Regs, calls []call) error {
	before, mask, all := c.Regs, c.Mask, ^uint64(0)
	ptrace.RestartEINTR(&before) // the thread may continue with these if the tool dies
	if err := c.WriteRegs(start); err != nil {
		return errors.Join(fmt.Errorf("set registers: %w", err), c.Release())
	}
	err := at(pts.set)
	if err == nil {
		err = c.WriteMask(&all)
	}
	if err == nil {
		err = at(pts.masked)
	}
	if err == nil && !v.held {
		return c.Detach()
	}
	if err == nil {
		var made bool
		made, err = v.stepThroughCalls(c, pts, &before, start, mask, calls)
		v.callsMade = err != nil && (made || ranOn(err))
	}
	return errors.Join(err, c.WriteMask(&mask), c.WriteRegs(&before), c.Release())
}

// noteThread stores in the target the ID of the thread that makes the clone, just before
// that thread starts: a later tool uses it to see whether the clone can still happen. It
// fails if another tool has claimed the mapping: a tool that was stopped for long counts
// as dead.
func (v *threadBorrower) noteThread(cand candidate) error {
	if v.bootAt == 0 {
		return nil
	}
	words := unsafe.Slice((*byte)(unsafe.Pointer(&v.words)), unsafe.Sizeof(v.words))
	if err := v.peek(v.bootAt, words); err != nil || v.words != [2]uint64{bootMagic, v.nonce} {
		return fmt.Errorf("mapping at %#x: %w", v.bootAt, ErrTaken)
	}
	v.words[0] = uint64(cand.nstid)
	if err := v.poke(v.bootAt+armedOffset, words[:4]); err != nil {
		return fmt.Errorf("note the thread: %w", err)
	}
	if err := v.peek(v.bootAt+claimAt, words[:1]); err != nil || words[0] != 0 {
		clear(words[:4])
		return errors.Join(fmt.Errorf("mapping at %#x: %w", v.bootAt, ErrTaken), err, v.poke(v.bootAt+armedOffset, words[:4]))
	}
	return nil
}

// ErrTaken means that another tool treated this one as dead, because it was stopped for
// too long, and freed its mapping.
var ErrTaken = errors.New("another rtl-attach freed it: this one was stopped for too long")
