package session

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// trace is the file that a recording writes. The recording's goroutine sets the fields. The
// goroutine that abandons a recording reads empty, and revokes the guard.
type trace struct {
	db     *tracedb.DB // nil: a flight recorder makes its own
	guard  tracedb.Guard
	empty  atomic.Bool // this recording created the file, and has not written to it yet
	broken *brokenTrace
}

// discard removes an empty file; it leaves a file to extend unchanged.
func (t *trace) discard() error {
	t.empty.Store(false)
	if t.db == nil {
		return nil
	}
	return t.db.Discard()
}

// path returns the path of the trace; "": a flight recorder's have their own.
func (t *trace) path() string {
	if t.db == nil {
		return ""
	}
	return t.db.Path()
}

func (t *trace) sizeBytes() uint64 {
	if t.db == nil {
		return 0
	}
	return t.db.SizeBytes()
}

func (r *recording) createTrace() (err error) {
	if r.o.Flight != nil {
		return nil
	}
	if r.trace.db, err = tracedb.Make(r.Place); err != nil {
		return err
	}
	r.trace.empty.Store(!r.Place.Extends)
	r.o.Watch.note(r.trace.db)
	if r.Place.Extends && r.isFull() {
		return errors.Join(fmt.Errorf("%s: %w", r.Place.Path, failure.ErrFull), r.trace.discard())
	}
	if err := testpoint.Pass(testpoint.Created); err != nil {
		return errors.Join(err, r.trace.discard())
	}
	return nil
}

// noteLateWorkers writes the late workers to the trace.
func (r *recording) noteLateWorkers() error {
	if r.watcher == nil {
		return nil
	}
	var targets []tracedb.Target
	for _, n := range r.watcher.End(watchdog.Hanging() <= watchdog.Limit) {
		targets = append(targets, n.Target(""))
	}
	if r.trace.db == nil {
		return nil
	}
	return r.trace.db.Targets(targets)
}

func (r *recording) finishTrace() error {
	if r.trace.db == nil {
		return testpoint.Pass(testpoint.Finished)
	}
	return errors.Join(r.trace.db.Close(), testpoint.Pass(testpoint.Finished))
}

// info returns the trace's description of this session.
func (r *recording) info(s ring.Snapshot) tracedb.SessionInfo {
	host, _ := os.Hostname()
	return tracedb.SessionInfo{
		PID:         uint32(r.o.PID),
		StartTicks:  r.Target.StartTicks,
		Command:     sanitize.Text(r.Facts.Comm),
		Rank:        r.rank,
		Host:        host,
		ToolVersion: r.o.Version,
		BuildID:     s.BuildID,
		Generation:  s.Generation,
		ArmedNS:     soundArming(s.ArmedNS, boottimeNS()),
		Recorder:    recorder(),
		Guard:       &r.trace.guard,
		ThreadName:  func(tid uint32) string { return sanitize.Text(r.Target.ThreadName(int(tid))) },
	}
}

// brokenTrace is a trace to which a write failed during a session.
type brokenTrace struct {
	session *tracedb.Session
	taken   uint64 // records taken from the ring
	err     error
}

// describeBroken writes to the trace how the session ended, and what is missing. The caller
// has detached.
func (r *recording) describeBroken() {
	if r.trace.broken == nil || r.trace.db.Failure() == nil {
		return
	}
	s := r.link.control.Snapshot()
	end := tracedb.End{Reason: tracedb.EndWriteFailed, ArmedNS: s.ArmedNS, DetachedNS: s.DetachedNS}
	missing := tracedb.Loss{Cause: tracedb.CauseWriteFailed, Records: r.trace.broken.session.Unwritten(), UntilNS: s.DetachedNS}
	if errors.Is(r.trace.broken.err, tracedb.ErrNoSpace) {
		end.Reason, missing.Cause = tracedb.EndDiskFull, tracedb.CauseDiskFull
	}
	if written := r.link.control.Counters().Records; !r.link.isLost() && written > r.trace.broken.taken {
		missing.Records += written - r.trace.broken.taken
	}
	r.tally.missing += missing.Records
	if err := r.trace.broken.session.EndUnwritten(end, missing); err != nil {
		r.ui.Warn("the trace does not say why it ends: " + failure.FirstLine(err))
	}
	r.ui.Warn(fmt.Sprintf("%s: %s missing at the end of the trace", end.Reason, humanize.Things(int64(missing.Records), "record")))
}

// recorder returns this process's identity for the trace.
func recorder() tracedb.Recorder {
	me, err := target.Self()
	if err != nil {
		return tracedb.Recorder{}
	}
	return tracedb.Recorder{PID: uint32(me.PID), StartTicks: me.StartTicks, PIDNamespace: me.PIDNamespace}
}
