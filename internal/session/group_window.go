package session

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// record waits for the end of the common window, and then for all members.
func (g *group) record(ctx context.Context, endWindow context.CancelFunc) error {
	g.startNS = g.begin.set()
	if len(g.o.Schedule) > 0 {
		g.startSchedules(ctx)
	}
	err := g.beginCommon()
	g.eachMeasured(func(m *rates) { m.begin(rateDuring) })
	g.ui.AllAttached(g.describePauses())
	g.watcher.Begin()
	if err := g.privileges.drop(); err != nil {
		g.ui.Debug("privileges stay: " + failure.FirstLine(err))
	}
	why := g.window(ctx)
	g.endNS = g.commonEnd(why)
	g.decided.Store(&collector.Ending{Reason: why, WindowEndNS: g.endNS})
	g.eachMeasured(func(m *rates) { m.end(rateDuring) })
	endWindow()
	g.joins.end()
	g.noteEarly(why)
	g.ui.Detaching(why, why == tracedb.EndInterrupted || why == tracedb.EndElapsed || why == tracedb.EndSchedule)
	for _, m := range g.members {
		m.wait()
	}
	g.ui.Detached(g.describeDetach())
	g.lookAround()
	return errors.Join(err, g.endCommon())
}

// lookAround finds late workers. It restores the tool's privileges first; the end of the
// trace needs them, too. A hanging thread would not take part in the change.
func (g *group) lookAround() {
	mayLook := watchdog.Hanging() <= watchdog.Limit
	if mayLook {
		if err := g.privileges.restore(); err != nil {
			g.ui.Warn("cannot restore privileges: " + failure.FirstLine(err))
		}
	}
	g.lateWorkers = g.watcher.End(mayLook)
}

// window waits for the end of the common window and returns its reason.
func (g *group) window(ctx context.Context) string {
	began := time.Now()
	var deadline time.Time
	if g.o.Duration > 0 {
		left := time.Duration(g.startNS) + g.o.Duration - time.Duration(boottimeNS())
		deadline = began.Add(left)
	}
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	isOver, stop := timerUntil(deadline)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return tracedb.EndInterrupted
		case <-g.o.Commands.stop():
			return tracedb.EndStopped
		case <-isOver:
			return tracedb.EndElapsed
		case armed := <-g.joins.attached:
			g.joins.conclude(armed)
		case <-tick.C:
		}
		g.joins.step()
		g.ui.Recording(time.Since(began), g.o.Duration, g.progress(), g.sizeBytes())
		switch {
		case g.isFull():
			return tracedb.EndSizeLimit
		case g.o.Flight != nil && g.o.Flight.IsDone():
			return endSpent
		case g.count((*member).isOver) == len(g.members) && (!g.joins.isBusy() || g.count((*member).isDetachedByOther) > 0):
			if g.count((*member).isScheduleOver) > 0 {
				return tracedb.EndSchedule
			}
			return allEnded
		case g.count((*member).hangs) > 0: // in time: if the thread holds a stop, the kernel soon kills the tool
			return "a thread of this tool hangs in the memory of one of them"
		}
	}
}

func (g *group) isFull() bool {
	return g.db != nil && g.o.MaxSizeBytes > 0 && g.db.SizeBytes() > g.o.MaxSizeBytes
}

const allEnded = "all of them have ended"

// ending returns the end of the common window, for the sessions of the members; zero: the
// window is open.
func (g *group) ending() collector.Ending {
	if e := g.decided.Load(); e != nil {
		return *e
	}
	return collector.Ending{}
}

// noteEarly notes why the common window ended early.
func (g *group) noteEarly(why string) {
	switch why {
	case tracedb.EndElapsed, tracedb.EndSchedule:
		return
	case tracedb.EndInterrupted, tracedb.EndStopped, endSpent:
		if g.o.Duration == 0 {
			return
		}
	default:
		g.ui.Warn("the recording ended early: " + why)
	}
	g.early = why
}

// endedEarly returns why the recording, or one of its members, ended early.
func (g *group) endedEarly() string {
	early := g.early
	for _, m := range g.members {
		if m.isOver() {
			early = cmp.Or(early, m.tally.early)
		}
	}
	return early
}

// commonEnd returns the end of the common window: now, but at most the requested duration
// after the start; or, if all members have ended, the first end.
func (g *group) commonEnd(why string) uint64 {
	end := boottimeNS()
	if why == tracedb.EndElapsed {
		return g.startNS + uint64(g.o.Duration)
	}
	if g.count((*member).isOver) < len(g.members) {
		return end
	}
	for _, m := range g.members {
		if m.endNS > g.startNS && (m.outcome == tracedb.OutcomeRecorded || m.outcome == tracedb.OutcomeJoined || m.outcome == tracedb.OutcomeIdle) {
			end = min(end, m.endNS)
		}
	}
	return end
}

func (g *group) progress() (sum collector.Progress) {
	for _, m := range g.members {
		p := m.ui.latest()
		sum.Dispatches += p.Dispatches
		sum.RingBytes += p.RingBytes
		sum.LostRecords += p.LostRecords
	}
	return sum
}
