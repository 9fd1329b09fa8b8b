package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/schedule"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// mostWindows is the most windows of one recording: readers of the trace have a limit of sessions.
const mostWindows = 1 << 13

// startLead is the time between the command that begins the schedules of several processes, and their
// common begin.
const startLead = 100 * time.Millisecond

// windows makes a session of each window of a schedule. The drain's goroutine owns it until the drain
// is done.
type windows struct {
	*recording
	snapshot ring.Snapshot
	current  *tracedb.Session                // the last one; nil: none yet
	latest   atomic.Pointer[tracedb.Session] // the same, for any goroutine
	open     atomic.Bool                     // it is going on
	begun    atomic.Int64
	missed   uint64
	why      string // why the last missed one was missed
}

// Begin implements collector.Periods.
func (w *windows) Begin(p ring.Period) (collector.Sink, error) {
	info := w.info(w.snapshot)
	info.Generation, info.ArmedNS = p.Generation, soundArming(p.ArmedNS, boottimeNS())
	s, err := w.trace.db.Begin(info)
	if err != nil {
		return nil, err
	}
	w.current = s
	w.latest.Store(s)
	w.open.Store(true)
	w.begun.Add(1)
	return s, errors.Join(s.Period(info.PID, info.StartTicks, describePeriod(p, 1, "")), s.Filters(filterSettings(w.o.Filter)))
}

// Ended implements collector.Periods.
func (w *windows) Ended(counters ring.Counters, told bool) error {
	w.open.Store(false)
	if !told {
		return nil
	}
	return w.current.Counters(collector.Counters(counters, all.Kinds))
}

// Missed implements collector.Periods.
func (w *windows) Missed(p ring.Period) error {
	if p.Error != -int32(unix.ECANCELED) {
		w.missed += p.Count
	}
	w.why = "it was over before it could begin"
	if errno := unix.Errno(-p.Error); p.Error < 0 {
		w.why = "the payload could not arm: " + errno.Error()
	}
	switch p.Error {
	case -int32(unix.ENODEV):
		w.why = "the HSA runtime was shut down"
	case -int32(unix.ECANCELED):
		w.why = switchedOff
	}
	return w.trace.db.MissedPeriods(uint32(w.o.PID), w.Target.StartTicks, describePeriod(p, p.Count, w.why))
}

// switchedOff is why windows are missing that the user did not want.
const switchedOff = "switched off by a command"

func describePeriod(p ring.Period, count uint64, reason string) tracedb.Period {
	return tracedb.Period{
		Number: p.Number, Count: count, Clock: schedule.ClockName(ring.Clock(p.Clock)),
		PlannedNS: p.PlannedNS, EndNS: p.PlannedEndNS, Reason: reason,
	}
}

// session returns the session for what does not come from the ring: the last one, or an empty one if
// there was no window.
func (w *windows) session(reason string) (*tracedb.Session, error) {
	if w.missed > 0 {
		w.ui.Warn(fmt.Sprintf("%s of the schedule not recorded: %s", humanize.Things(int64(w.missed), "window"), w.why))
	}
	if w.current != nil {
		return w.current, nil
	}
	info := w.info(w.snapshot)
	info.ArmedNS = 0
	s, err := w.trace.db.Begin(info)
	if err != nil {
		return nil, err
	}
	return s, s.End(tracedb.End{Reason: cmp.Or(reason, tracedb.EndSchedule)})
}

// startSchedule begins the schedule now.
func (r *recording) startSchedule(startNS uint64) error {
	r.declared.beginsNS = startNS + uint64(r.o.Schedule.FirstDelay())
	err := r.link.control.Start(startNS, detachTimeout)
	if err != nil {
		return fmt.Errorf("begin the schedule: %w", err)
	}
	return nil
}

// startSchedules begins the schedules of all members at one moment.
func (g *group) startSchedules(ctx context.Context) {
	startNS := boottimeNS() + uint64(startLead)
	var all sync.WaitGroup
	for _, m := range g.members {
		if m.armed && !m.isOver() && ctx.Err() == nil {
			all.Go(func() {
				if err := m.startSchedule(startNS); err != nil && !errors.Is(err, ring.ErrNoAnswer) {
					m.ui.Warn(failure.FirstLine(err))
				}
			})
		}
	}
	all.Wait()
	g.startNS = startNS + uint64(g.o.Schedule.FirstDelay())
}

// endedBySchedule reports whether the session has ended because all windows are over.
func (r *recording) endedBySchedule() bool { return r.tally.ended == ring.EndSchedule }
