package python

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Sample is what a thread was at, as it was read from its memory.
type Sample struct {
	TID     int    // the tool's
	OwnTID  int    // the process's own
	TimeNS  uint64 // CLOCK_BOOTTIME
	Running bool   // on a CPU or ready for one, by its state in /proc
	State   byte   // R, S, D, T, …
	Frames  []Frame
	Cut     bool // there are more frames
}

// Spy takes samples of a process's Python threads without BPF: it reads their memory while they run. A thread that runs may
// have gone on between two readings. What is found to have changed is read again, and then left out and counted in
// Torn. Not noticed is a frame that the thread has left and that CPython 3.11 and 3.12 themselves still have as the innermost one, for
// some instructions at the beginning of a call from C: if the thread loses its processor there, the frame is shown in its new caller.
type Spy struct {
	Interpreter *Interpreter
	Target      *target.Target
	Interval    time.Duration      // between two rounds over all threads
	Round       func(nowNS uint64) // called when one begins, with CLOCK_BOOTTIME; nil: nothing

	Rounds uint64 // so far
	Missed uint64 // rounds that were left out because the one before took longer than Interval
	Torn   uint64 // samples that were left out
	Slow   uint64 // samples that were left out because reading them took longer than SlowestNS
}

// SlowestNS is how long after its TimeNS a Sample's stack and state may have been read.
const SlowestNS = 1_000_000

// Run calls visit for each sample, until the context ends or the process does; then it returns nil.
func (s *Spy) Run(ctx context.Context, visit func(Sample)) error {
	tick := time.NewTicker(s.Interval)
	defer tick.Stop()
	for next := time.Now().Add(s.Interval); ; next = next.Add(s.Interval) {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if late := time.Since(next); late > s.Interval {
			s.Missed += uint64(late / s.Interval)
			next = time.Now()
		}
		switch err := s.round(visit); {
		case err == nil:
		case errors.Is(err, target.ErrGone), !s.Target.Alive():
			return nil
		case !errors.Is(err, ErrTorn), errors.Is(err, target.ErrExec):
			return err
		default:
			s.Torn++
		}
	}
}

// round takes a sample of each thread.
func (s *Spy) round(visit func(Sample)) error {
	s.Rounds++
	now, err := boottime()
	if err != nil {
		return err
	}
	if s.Round != nil {
		s.Round(now)
	}
	threads, err := s.Interpreter.Threads()
	if err != nil {
		return err
	}
	for tid, at := range threads {
		began, err := boottime()
		if err != nil {
			return err
		}
		stat, err := s.Target.ThreadStat(int(tid))
		if err != nil {
			continue // it has ended
		}
		sample := Sample{TID: int(tid), OwnTID: int(s.Interpreter.listed[at]), TimeNS: began, State: stat.State, Running: stat.State == 'R'}
		raw, frames, err := s.Interpreter.Raw(at)
		ended, clockErr := boottime()
		switch {
		case clockErr != nil:
			return clockErr
		case ended-began > SlowestNS:
			s.Slow++
			continue
		case errors.Is(err, ErrCut):
			sample.Cut = true
		case err != nil:
			s.Torn++
			continue
		}
		sample.Frames = s.Interpreter.functions(raw, frames)
		visit(sample)
	}
	return nil
}

// boottime returns CLOCK_BOOTTIME.
func boottime() (uint64, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return uint64(now.Nano()), err
}
