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
		return moved
	}
	p := Pause{TID: cand.tid, Stop: name}
	v.alone = false
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
	if v.alone { // whoever waits for the effect of its calls finds out, as if it had been released
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

// denied finds out what EPERM means: a thread that is ending, one that is
// or was traced, or that we may not trace it.
func (v *threadBorrower) denied(tid int, err error) error {
	stat, serr := v.t.ThreadStat(tid)
	if serr != nil || stat.State == 'Z' || stat.State == 'X' {
		return ending
	}
	if status, serr := v.t.ThreadStatus(tid); serr == nil && status.TracerPID != 0 {
		return v.t.Traced(status.TracerPID)
	}
	if v.denials++; v.denials < 3 {
		return busy // traced a moment ago, perhaps
	}
	return v.t.Denied(fmt.Sprintf("ptrace of thread %d", tid), err)
}

// unseize gives up a seized thread: only a stopped one can be detached.
func unseize(c *ptrace.Tracee) error {
	if _, err := c.Interrupt(stepPatience); err != nil {
		return err
	}
	return c.Release()
}

// patienceFor is how long a thread gets to stop. In a futex wait it can be given up
// soon, for another; elsewhere its call might return EINTR then.
func (v *threadBorrower) patienceFor(cand candidate) time.Duration {
	if cand.class == idleFutexWait {
		return v.patience
	}
	return max(v.patience, stepPatience)
}

// inStop is the stop itself. Whatever happens, the thread is let go as it was
// or in a chain that makes it so; only a thread that does not stop at all is
// left to the kernel, by the end of the tracer's OS thread.
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
	return v.setOff(c, pts, &start, calls)
}

// prepare writes the chain below the thread's stack, and whatever the calls need in
// memory. It returns the registers that set it off; the thread is still as it was.
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
	// A handler that runs before the call is issued again would have ended the call with
	// EINTR. Callers of a futex expect to be woken for nothing; others might wait for ever.
	// (It may be in another wait by now than when it was chosen.)
	v.held = v.hold || where == ptrace.TimedWait || (where == ptrace.Waiting && classOf(&c.Regs) != idleFutexWait)
	if v.held {
		calls = calls[:1] // each call is set by hand; the link is for our death
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

// setOff lets the thread make its calls: by itself, or held from call to call. Frame
// first, then registers, then mask, and back in the reverse order: a tool that dies in
// between leaves nobody deaf. All signals wait until the thread is itself again.
func (v *threadBorrower) setOff(c *ptrace.Tracee, pts points, start *ptrace.Regs, calls []call) error {
	before, mask, all := c.Regs, c.Mask, ^uint64(0)
	ptrace.RestartEINTR(&before) // the kernel may let it go with these, if we die
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
		v.alone = err != nil && (made || ranOn(err))
	}
	return errors.Join(err, c.WriteMask(&mask), c.WriteRegs(&before), c.Release())
}

// noteThread writes down in the target who was told to make the clone, just
// before it is: a later tool finds out whether it still can. The mapping must
// still be ours: a tool that was stopped for long may have been taken for dead.
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

// ErrTaken: we were stopped for so long that another tool took us for dead.
var ErrTaken = errors.New("another tool has taken us for dead and freed it")
