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
	watchPeriod   = 50 * time.Millisecond
	retryPeriod   = 100 * time.Millisecond // for a runtime that was shut down
	endTimeout    = 10 * time.Second       // after a detach, for the next of the last records
	exitTimeout   = 2 * time.Second        // for a target that has begun to exit
	departTimeout = time.Second            // for one that may be leaving its address space
)

// collectAll records until the window is over; our privileges may be down then.
// Where the application shuts its runtime down in between, and starts it anew, the
// trace gets a further session.
func (r *recording) collectAll(ctx context.Context) error {
	deadline := r.declareWindow()
	for {
		began := time.Now()
		again, err := r.collect(ctx, deadline)
		if err != nil || !again {
			return err
		}
		r.restorePrivileges() // for what a further session takes
		if r.isFull() {
			r.ui.Warn("recording does not go on: " + failure.SizeReached)
			r.early = tracedb.EndSizeLimit
			return nil
		}
		// A target that ends every session at once does not keep us busy.
		r.pauseUnlessOver(ctx, retryPeriod-time.Since(began))
		if !r.awaitRuntime(ctx, deadline) {
			return nil
		}
	}
}

func (r *recording) isFull() bool {
	return r.o.MaxSizeBytes > 0 && r.db.SizeBytes() > r.o.MaxSizeBytes
}

// awaitRuntime attaches again as soon as the runtime is back (ENODEV), and as
// often as it is shut down while we do so (ECANCELED).
func (r *recording) awaitRuntime(ctx context.Context, deadline time.Time) bool {
	env, err := r.o.environment()
	if err != nil {
		return false
	}
	for !over(ctx, deadline) && !r.isGone() && !r.held.StopRequested() && !r.lostRecorderLock() {
		if err = r.arm(ctx, env); err == nil {
			r.attached, r.early = true, ""
			r.ui.Warn("the application shut its ROCm runtime down and started it anew: recording goes on in a further session")
			return true
		}
		if !isWithoutRuntime(err) {
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

// A drain is one session's way from the ring into the trace.
type drain struct {
	collector *collector.Collector
	session   *tracedb.Session
	giveUp    context.CancelFunc // takes what is there, and ends
	mostBytes uint64             // that a payload can have when it has detached
	thread    lowPriority
	done      chan struct{}
	result    collector.Result
	err       error
}

func (r *recording) startDrain() (*drain, error) {
	snapshot := r.control.Snapshot()
	if r.lostRecorderLock() {
		return nil, failure.ErrTakenOver
	}
	limit, err := r.o.ringBytes()
	if err != nil {
		return nil, err
	}
	reader, err := resident.OpenRing(r.Target, snapshot, limit)
	if err != nil {
		return nil, err
	}
	session, err := r.db.Begin(r.info(snapshot))
	if err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	// The context of the user's patience ends the window, not the drain.
	ctx, giveUp := context.WithCancel(context.Background())
	d := &drain{
		collector: collector.New(reader, session, all.Kinds), session: session, giveUp: giveUp,
		mostBytes: r.o.heldBytes(limit), done: make(chan struct{}),
	}
	d.collector.CountRounds(func() (uint64, bool) { return r.control.Counters().WorkerRounds, !r.lostRecorderLock() })
	d.thread.run(func() {
		defer close(d.done)
		d.result, d.err = d.collector.Run(ctx, r.gone)
		d.err = errors.Join(d.err, reader.Close())
	})
	return d, nil
}

// drainParts are the parts of what a payload can hold; with each that comes we are
// patient anew. A slow disk takes a part of that size in time.
const (
	drainParts    = 100
	mostPartBytes = 16 << 20
)

// taken counts the parts that come from now on. The target writes them, and might go on
// for ever, or line by line: there is an end to both.
func (d *drain) taken() func() uint64 {
	from, step := d.collector.Progress().RingBytes, min(max(d.mostBytes/drainParts, ring.LineBytes), mostPartBytes)
	return func() uint64 { return min(d.collector.Progress().RingBytes-from, d.mostBytes) / step }
}

// errNoEnd: what the payload writes at a detach was waited for in vain.
var errNoEnd = errors.New("the payload did not write its last records")

// finish waits for the last record, for as long as others come before it.
func (d *drain) finish(tick <-chan time.Time) error {
	taken, still := d.taken(), time.Duration(0)
	for seen := taken(); still < endTimeout; {
		select {
		case <-d.done:
			return nil
		case <-tick:
		}
		still += watchPeriod
		if now := taken(); now != seen {
			seen, still = now, 0
		}
	}
	d.giveUp()
	<-d.done
	if d.result.Ended { // it came with what was there
		return nil
	}
	return errNoEnd
}

// collect records one session. again: the application ended it by shutting its
// runtime down.
func (r *recording) collect(ctx context.Context, deadline time.Time) (again bool, err error) {
	d, err := r.startDrain()
	if err != nil && r.targetIsGone() {
		r.reportEnd("") // it went before anything could be recorded
		return false, nil
	}
	if err != nil && r.hasMissedSession() {
		err = r.noteMissedSession()
		return r.ended == ring.EndShutDown, err
	}
	if err != nil {
		return false, err
	}
	defer d.giveUp()
	r.dropPrivileges()
	why := ""
	if err = testpoint.Pass(testpoint.Recording); err != nil {
		d.giveUp()
	} else if why = r.window(ctx, deadline, d); why != "" {
		d.collector.EndWith(r.ending(why))
		r.ui.Detaching(why, why == tracedb.EndInterrupted || why == tracedb.EndElapsed)
		d.thread.raisePriority() // what the payload holds is waited for
		r.taken = d.taken()
		if err = r.detach(); err != nil {
			d.giveUp() // its last record will not come
		}
	}
	d.thread.raisePriority()
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	err = errors.Join(err, d.finish(tick.C), testpoint.Pass(testpoint.Drained))
	r.timed += d.result.Timed
	r.noTimes += d.result.NoTimes()
	for _, k := range d.result.Kinds {
		r.timed += k.Timed
	}
	r.ended = d.result.End
	r.noteLosses(d.result)
	if d.err != nil {
		r.broken = &brokenTrace{session: d.session, taken: d.result.Records, err: d.err}
	}
	err = errors.Join(err, d.err, r.describeSession(d.session))
	if err != nil {
		return false, err // the session may go on: Record ends it
	}
	r.reportEnd(why)
	r.noteEarly(why)
	return why == "" && r.ended == ring.EndShutDown && !r.isGone(), nil
}

// targetIsGone notices an exec, too, that the watcher has not seen yet, and an exit that
// is under way, and then waits for it to do so.
func (r *recording) targetIsGone() bool {
	if !r.isDeparting() {
		return r.isGone()
	}
	select {
	case <-r.gone:
	case <-time.After(exitTimeout):
	}
	return r.isGone()
}

// isDeparting: in the middle of an exec a process has another address space already, and the
// one that we know is there still.
func (r *recording) isDeparting() bool {
	for deadline := time.Now().Add(departTimeout); ; time.Sleep(time.Millisecond) {
		if r.Target.CheckIdentity() != nil || r.Target.Leaving() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// reportEnd tells an end that was not ours: also one that came just before ours.
func (r *recording) reportEnd(why string) {
	switch {
	case r.executed.Load():
		r.ui.Warn("the target has executed another program, and with its old one went everything of ours")
	case r.ended == ring.EndExit:
		r.awaitExit()
	case (r.ended != ring.EndDetach || why == "") && !r.isGone():
		r.ui.Warn("the session ended in the target: " + resident.EndText(r.ended))
	}
	if why == "" && (r.isGone() || r.ended == ring.EndExit || r.isAtRest()) {
		r.attached = false
	}
}

// isAtRest: what has ended in the target by itself has put everything back, too. Else it
// is detached from as if it had not ended.
func (r *recording) isAtRest() bool {
	for deadline := time.Now().Add(exitTimeout); ; {
		s := r.control.Snapshot()
		if (s.State == ring.StateIdle || s.State == ring.StateDormant) && s.HooksPatched == 0 {
			return true
		}
		if r.isGone() || !r.held.Held() || time.Now().After(deadline) {
			return r.isGone()
		}
		r.control.WaitState(s.State, watchPeriod)
	}
}

// awaitExit gives a process that runs its exit handlers a while to be gone.
func (r *recording) awaitExit() {
	select {
	case <-r.gone:
	case <-time.After(exitTimeout):
		r.ui.Warn("the target is exiting, and takes its time: the trace holds what came before its exit handlers")
	}
}

// window waits for the end of the recording and says why it has come; "": the
// session has ended in the target, or the target is gone.
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
		case <-r.gone:
			return ""
		case <-ctx.Done():
			return tracedb.EndInterrupted
		case <-isOver:
			return tracedb.EndElapsed
		case <-tick.C:
		}
		progress := d.collector.Progress()
		d.thread.adapt(progress.LostRecords)
		r.ui.Recording(time.Since(began), r.o.Duration, progress, r.db.SizeBytes())
		switch {
		case r.held.StopRequested():
			return tracedb.EndRequested
		case r.isFull():
			return tracedb.EndSizeLimit
		}
	}
}

// describeSession adds to the trace what the ring does not carry.
func (r *recording) describeSession(s *tracedb.Session) error {
	counters := r.meter.counters(r.o.PID)
	if theirs := collector.Counters(r.control.Counters(), all.Kinds); !r.lostRecorderLock() {
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
