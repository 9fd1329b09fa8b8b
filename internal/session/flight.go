package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/flight"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// endSpent is why a recording ends whose flight recorder may write no further trace.
const endSpent = "the last trigger has written its trace (--max-triggers)"

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
		Info:   func() tracedb.SessionInfo { return info },
		Create: r.createPart,
		Counters: func() []tracedb.Counter {
			if r.link.isLost() {
				return nil
			}
			return collector.Counters(r.link.control.Counters(), all.Kinds)
		},
		Idle:    r.isIdle,
		Pauses:  pauses,
		Run:     func(work func()) { new(lowPriority).run(work) },
		Written: r.noteTrigger,
	}
}

// createPart creates the trace of a trigger. It restores the privileges until the trace is closed: it may
// lie in a folder in which only root may make files.
func (r *recording) createPart(number uint64) (*tracedb.DB, func(), error) {
	path, err := preflight.OutputPath(r.o.Output, r.o.PID, number, time.Now())
	if err != nil {
		return nil, nil, err
	}
	err = r.privileges.restore()
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

// noteTrigger reports what has become of a trigger.
func (r *recording) noteTrigger(o flight.Outcome) {
	what := fmt.Sprintf("%d   %s", o.Number, o.Expression)
	if o.Value != "" {
		what += ": " + o.Value
	}
	if o.Err != nil {
		r.ui.Warn(fmt.Sprintf("trigger %s: no trace: %s", what, failure.FirstLine(o.Err)))
		return
	}
	r.ui.Triggered(fmt.Sprintf("%s; %s, written in %s to %s", what, humanize.Things(int64(o.Records), "record"), humanize.Duration(o.Took), o.Path))
}

// endFlight ends the flight recorder of a session.
func (r *recording) endFlight(d *drain) {
	if d.flight == nil {
		return
	}
	if r.watch.isGone() || d.result.Ended && d.result.End == ring.EndExit {
		d.flight.TargetEnded(r.howGone(d))
	}
	d.flight.Close()
}

func (r *recording) howGone(d *drain) string {
	switch {
	case d.result.Ended && d.result.End == ring.EndExit:
		return resident.EndText(ring.EndExit)
	case r.watch.executed.Load():
		return "it has executed another program"
	}
	return "it was killed, or ended without its exit handlers"
}

// ErrOneProcess is the error for a flight recorder of several processes. No process was touched.
var ErrOneProcess = errors.New("several processes are selected")

var errNoFlight = errors.New("no flight recorder: --keep-last is not given")
