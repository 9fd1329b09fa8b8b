package session

import (
	"context"
	"errors"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const (
	watchPeriod = 50 * time.Millisecond
	retryPeriod = 100 * time.Millisecond // for a runtime that was shut down
	endTimeout  = 10 * time.Second       // after a detach, for each next record
)

// collectAll records until the window is over; it may return with privileges dropped. If
// the application shuts its runtime down and restarts it, the trace gets a further
// session.
func (r *recording) collectAll(ctx context.Context) error {
	deadline := r.declareWindow()
	for {
		began := time.Now()
		again, err := r.collect(ctx, deadline)
		if err != nil || !again {
			return err
		}
		r.restorePrivileges() // a further session needs them
		if r.isFull() {
			r.ui.Warn("recording does not go on: " + failure.SizeReached)
			r.tally.early = tracedb.EndSizeLimit
			return nil
		}
		// Do not spin on a target that ends every session at once.
		r.pauseUnlessOver(ctx, retryPeriod-time.Since(began))
		if !r.awaitRuntime(ctx, deadline) {
			return nil
		}
	}
}

func (r *recording) isFull() bool {
	return r.o.MaxSizeBytes > 0 && r.trace.sizeBytes() > r.o.MaxSizeBytes
}

// awaitRuntime attaches again as soon as the runtime is back. It repeats this while there
// is no runtime (ENODEV), or the runtime is shut down during the attach (ECANCELED).
func (r *recording) awaitRuntime(ctx context.Context, deadline time.Time) bool {
	env, err := r.o.environment()
	if err != nil {
		return false
	}
	for !over(ctx, deadline) && !r.watch.isGone() && !r.link.held.StopRequested() && !r.link.isLost() {
		if err = r.arm(ctx, env); err == nil {
			r.phase.attached, r.tally.early = true, ""
			r.ui.Warn("the application shut its ROCm runtime down and restarted it: recording goes on in a further session")
			return true
		}
		if !isWithoutRuntime(err) {
			if r.watch.isEnding() {
				return false
			}
			r.ui.Warn("cannot attach again: " + failure.FirstLine(err))
			return false
		}
		r.pauseUnlessOver(ctx, retryPeriod)
	}
	return false
}

func over(ctx context.Context, deadline time.Time) bool {
	return ctx.Err() != nil || !deadline.IsZero() && !time.Now().Before(deadline)
}

// collect records one session. again: the application ended it by shutting its
// runtime down.
func (r *recording) collect(ctx context.Context, deadline time.Time) (again bool, err error) {
	d, err := r.startDrain()
	if err != nil && r.watch.isEnding() {
		r.reportEnd("") // it ended before its first record
		return false, nil
	}
	if err != nil && r.hasMissedSession() {
		err = r.noteMissedSession()
		return r.tally.ended == ring.EndShutDown, err
	}
	if err != nil {
		return false, err
	}
	defer d.giveUp()
	if len(r.o.Schedule) > 0 && (r.declared.common == nil || r.reading != nil) { // a group begins those of its members together
		if err = r.startSchedule(boottimeNS()); err != nil {
			d.giveUp()
			<-d.done
			return false, err
		}
		deadline = r.declareWindow()
	}
	off := r.o.Commands.add(d)
	defer r.o.Commands.remove(d)
	if off {
		if err = d.switchTo(ctx, false); err != nil {
			d.giveUp()
			<-d.done
			return false, err
		}
	}
	if r.reading != nil {
		r.reading()
	}
	r.dropPrivileges()
	why := ""
	if err = testpoint.Pass(testpoint.Recording); err != nil {
		d.giveUp()
	} else if why = r.window(ctx, deadline, d); why != "" {
		r.endObserving()
		r.rates.end(rateDuring)
		d.collector.EndWith(r.ending(why))
		r.ui.Detaching(why, why == tracedb.EndInterrupted || why == tracedb.EndElapsed)
		d.thread.raisePriority() // the tool now waits for the payload's last records
		r.taken = d.taken()
		if err = r.detach(); err != nil {
			d.giveUp() // its last record will not come
		}
	}
	r.stopObserving()
	d.thread.raisePriority()
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	err = errors.Join(err, d.finish(tick.C), testpoint.Pass(testpoint.Drained))
	r.tally.timed += d.result.Timed
	r.tally.noTimes += d.result.NoTimes()
	r.tally.left += d.result.Filtered
	for _, k := range d.result.Kinds {
		r.tally.timed += k.Timed
	}
	r.tally.ended = d.result.End
	r.noteLosses(d.result)
	r.endFlight(d)
	err = errors.Join(err, d.settle(why))
	if d.err != nil && d.session != nil {
		r.trace.broken = &brokenTrace{session: d.session, taken: d.result.Records, err: d.err}
	}
	err = errors.Join(err, d.err)
	if d.session != nil {
		err = errors.Join(err, r.describeSession(d.session))
	}
	if err != nil {
		return false, err // the session may go on: Record ends it
	}
	r.reportEnd(why)
	r.noteEarly(why)
	return why == "" && r.tally.ended == ring.EndShutDown && !r.watch.isGone(), nil
}

// reportEnd reports a session's end that this tool did not command, also one just before
// its command.
func (r *recording) reportEnd(why string) {
	switch {
	case why == "" && r.endedBySchedule():
		if r.phase.detached = r.isAtRest() && !r.watch.isGone(); r.phase.detached {
			r.reportDetached()
		}
	case r.watch.executed.Load():
		r.ui.Warn("the target has executed another program, and with its old one went everything of ours")
	case r.tally.ended == ring.EndExit:
		if !r.watch.wait() {
			r.ui.Warn("the target is exiting, and takes its time: the trace holds what came before its exit handlers")
		}
	case r.reading != nil && r.tally.ended == ring.EndShutDown:
		r.ui.Debug(resident.EndText(r.tally.ended)) // as programs do at their end
	case (r.tally.ended != ring.EndDetach || why == "") && !r.watch.isGone():
		r.ui.Warn("the session ended in the target: " + resident.EndText(r.tally.ended))
	}
	if why == "" && (r.watch.isGone() || r.tally.ended == ring.EndExit || r.isAtRest()) {
		r.phase.attached = false
	}
}

// isAtRest reports whether the payload has ended the session by itself and restored
// everything. If not, the tool detaches as from an active session.
func (r *recording) isAtRest() bool {
	for deadline := time.Now().Add(exitTimeout); ; {
		s := r.link.control.Snapshot()
		if (s.State == ring.StateIdle || s.State == ring.StateDormant) && s.HooksPatched == 0 {
			return true
		}
		if r.watch.isGone() || !r.link.held.Held() || time.Now().After(deadline) {
			return r.watch.isGone()
		}
		r.link.control.WaitState(s.State, watchPeriod)
	}
}

// window waits for the end of the recording and returns its reason; "": the session has
// ended in the target, or the target has exited.
func (r *recording) window(ctx context.Context, deadline time.Time, d *drain) string {
	began := time.Now()
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	isOver, stop := timerUntil(deadline)
	defer stop()
	for {
		select {
		case <-d.done:
			return ""
		case <-r.watch.gone:
			return ""
		case <-ctx.Done():
			return tracedb.EndInterrupted
		case <-r.o.Commands.stop():
			return tracedb.EndStopped
		case <-isOver:
			return tracedb.EndElapsed
		case <-tick.C:
		}
		progress := d.collector.Progress()
		d.thread.adapt(progress.LostRecords)
		r.ui.Recording(time.Since(began), r.o.Duration, progress, d.sizeBytes(r))
		switch {
		case r.link.held.StopRequested():
			return tracedb.EndRequested
		case r.o.Flight != nil && r.declared.common == nil && r.o.Flight.IsDone(): // a group ends those of its members together
			return endSpent
		case r.isFull():
			return tracedb.EndSizeLimit
		case d.windows != nil && int(d.windows.begun.Load()) >= mostWindows/r.o.together():
			return tracedb.EndWindows
		}
	}
}

// describeSession adds data to the trace that does not come from the ring.
func (r *recording) describeSession(s *tracedb.Session) error {
	if s == nil { // a flight recorder describes its own traces
		return nil
	}
	counters := r.meter.counters(r.o.PID)
	if theirs := collector.Counters(r.link.control.Counters(), all.Kinds); !r.link.isLost() && len(r.o.Schedule) == 0 {
		counters = append(theirs, counters...)
	}
	err := s.Counters(counters)
	for _, p := range append(r.pauses, r.stacks.stops...) {
		p.TID = r.ownTID(p.TID)
		err = errors.Join(err, s.Pause(p))
	}
	r.pauses, r.stacks.stops = nil, nil
	return err
}
