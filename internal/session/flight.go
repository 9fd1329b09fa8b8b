package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/flight"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// endSpent is why a recording ends whose flight recorder may write no further trace.
const endSpent = "the last trigger has written its trace (--max-triggers)"

// newFlight returns the flight recorders of a command that records that many processes; nil: none is wanted.
func newFlight(o Options, h flight.GroupHost, processes int) *flight.Group {
	if o.Flight == nil {
		return nil
	}
	h.Run = func(work func()) { new(lowPriority).run(work) }
	h.Filter, h.Filters = o.Filter, filterSettings(o.Filter)
	return flight.NewGroup(o.Flight, h, processes)
}

// partMaker makes the traces of triggers.
type partMaker struct {
	o          *Options
	privileges *privileges
	ui         Observer
}

// flightHost returns what a flight recorder needs of the recording.
func (r *recording) flightHost(s ring.Snapshot) flight.Host {
	var pauses []tracedb.Pause
	for _, p := range append(r.pauses, r.stacks.stops...) {
		p.TID = r.ownTID(p.TID)
		pauses = append(pauses, p)
	}
	r.pauses, r.stacks.stops = nil, nil
	info := r.info(s)
	return flight.Host{
		PID:  r.o.PID,
		Info: func() tracedb.SessionInfo { return info },
		Counters: func() []tracedb.Counter {
			if r.link.isLost() {
				return nil
			}
			return collector.Counters(r.link.control.Counters(), all.Kinds)
		},
		Idle:   r.isIdle,
		Pauses: pauses,
		Joined: r.joined,
	}
}

// partPatience limits how long the trace of a trigger waits for the tool's privileges: a thread of the tool may hang in
// the kernel for a time, such as one that waits for a disk. The trace's records are in memory meanwhile.
const partPatience = time.Minute

// create creates the trace of a trigger. It restores the privileges until the trace is closed: it may
// lie in a folder in which only root may make files.
func (r partMaker) create(number uint64) (*tracedb.DB, func(), error) {
	path, err := preflight.OutputPath(r.o.Output, r.o.PID, number, time.Now())
	if err != nil {
		return nil, nil, err
	}
	err = r.privileges.insist(partPatience)
	drop := func() {
		if err := r.privileges.drop(); err != nil {
			r.ui.Debug("privileges stay: " + failure.FirstLine(err))
		}
	}
	var place tracedb.Place
	var db *tracedb.DB
	if err == nil {
		place, err = tracedb.Check(path, preflight.LeastSpaceBytes)
	}
	if err == nil {
		db, err = tracedb.Create(place)
	}
	if err != nil {
		drop()
		return nil, nil, err
	}
	return db, drop, nil
}

// isIdle reports whether no kernel runs, or waits to run, that the payload knows of.
func (r *recording) isIdle() bool {
	if r.link.isLost() {
		return false
	}
	c := r.link.control.Counters()
	kernels := &c.Kind[ring.KindDispatch]
	settled := c.TimedPool + c.TimedApp
	for _, n := range kernels.Untimed {
		settled += n
	}
	return settled >= kernels.Begun
}

// note reports what has become of a trigger.
func (r partMaker) note(o flight.Outcome) {
	what := fmt.Sprintf("%d   %s", o.Number, o.Expression)
	if o.Value != "" {
		what += ": " + o.Value
	}
	if o.Err != nil {
		r.ui.Warn(fmt.Sprintf("trigger %s: no trace: %s", what, failure.FirstLine(o.Err)))
		return
	}
	if len(o.Late) > 0 {
		r.ui.Warn(fmt.Sprintf("trigger %d: the trace is without the records of %s, which did not come in time (pid %s)",
			o.Number, humanize.Things(int64(len(o.Late)), "process"), strings.Trim(fmt.Sprint(o.Late), "[]")))
	}
	r.ui.Triggered(fmt.Sprintf("%s; %s, written in %s to %s", what, humanize.Things(int64(o.Records), "record"), humanize.Duration(o.Took), o.Path))
}

// endFlight ends the flight recorder of a session.
func (r *recording) endFlight(d *drain) {
	if d.flight == nil {
		return
	}
	shutDown := d.result.Ended && d.result.End == ring.EndShutDown && r.reading != nil // of a started program, the end of its recording
	if r.watch.isGone() || d.result.Ended && d.result.End == ring.EndExit || shutDown {
		d.flight.TargetEnded(r.howGone(d))
	}
	r.flight.Settle()
	d.flight.Release()
}

// flightTargets returns the processes of a trigger's trace.
func (g *group) flightTargets(now flight.State) []tracedb.Target {
	return append(g.describeTargets(g.everyone(), now), g.others()...)
}

func (g *group) describeTargets(members []*member, now flight.State) (list []tracedb.Target) {
	for _, m := range members {
		m.mu.Lock()
		t := tracedb.Target{
			PID: m.PID, StartTicks: m.StartTicks, Command: sanitize.Text(m.Command), Rank: m.rank, Outcome: tracedb.OutcomeRecorded,
		}
		decided, result := m.decided, m.result
		m.mu.Unlock()
		switch {
		case m.late == nil:
		case m.hasJoined():
			t.Outcome, t.Detail = tracedb.OutcomeJoined, sanitize.Text(m.late.How())
		default:
			t = m.late.Target("")
		}
		switch how, gone := now.Gone[m.PID]; {
		case gone:
			t.Outcome, t.ExitCode, t.Detail = tracedb.OutcomeExited, int(failure.TargetExited), sanitize.Text(how)
		case now.Late[m.PID]:
			t.Outcome, t.ExitCode, t.Detail = tracedb.OutcomeFailed, int(failure.Failed), "its records did not come in time"
		case decided && result.failure != nil && m.late != nil && !m.hasJoined() && result.exit != failure.Remains:
			t = m.late.Target(result.failure.What + ": " + result.failure.Cause)
		case decided && result.failure != nil:
			t.Outcome, t.ExitCode, t.Detail = result.outcome, int(result.exit), sanitize.Text(result.failure.What+": "+result.failure.Cause)
		case decided && result.exit == failure.TargetExited:
			t.Outcome, t.ExitCode, t.Detail = result.outcome, int(result.exit), "exited before"
		}
		list = append(list, t)
	}
	return list
}

// flightTargets returns the processes of a trigger's trace, each once, and those that could not be recorded. Others may have ended
// long before.
func (l *launched) flightTargets(now flight.State) []tracedb.Target {
	var named []*member
	for _, m := range l.everyone() {
		same := func(other *member) bool { return other.PID == m.PID }
		m.mu.Lock()
		failed := m.decided && m.result.failure != nil
		m.mu.Unlock()
		if !failed && !now.InTrace[m.PID] && !now.Late[m.PID] {
			continue
		}
		named = append(slices.DeleteFunc(named, same), m) // a process may have several sessions
	}
	return l.describeTargets(named, now)
}

func (r *recording) howGone(d *drain) string {
	switch {
	case d.result.Ended && (d.result.End == ring.EndExit || d.result.End == ring.EndShutDown):
		return resident.EndText(d.result.End)
	case r.watch.executed.Load():
		return "it has executed another program"
	}
	return "it was killed, or ended without its exit handlers"
}

var errNoFlight = errors.New("no flight recorder: --keep-last is not given")
