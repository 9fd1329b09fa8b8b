package session

import (
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// CauseMissed is the cause of loss of a session that ended before the tool mapped its ring.
const CauseMissed = "the session had ended before its first records could be taken"

// hasMissedSession reports whether the session ended, and unmapped its ring, after the
// attach but before the tool mapped the ring: the application shut its runtime down, or the
// tool was delayed and its heartbeat timed out.
func (r *recording) hasMissedSession() bool {
	state, err := r.settle()
	return err == nil && !state.IsRecording()
}

// noteMissedSession writes such a session to the trace.
func (r *recording) noteMissedSession() error {
	s, records := r.link.control.Snapshot(), r.link.control.Counters().Records
	r.ui.Warn(fmt.Sprintf("%s (%s): %s missing", CauseMissed, resident.EndText(s.LastEnd), humanize.Things(int64(records), "record")))
	r.tally.ended = s.LastEnd
	if r.isAtRest() {
		r.phase.attached = false
	}
	if r.trace.db == nil { // a flight recorder's traces come later
		return nil
	}
	session, err := r.trace.db.Begin(r.info(s))
	if err != nil {
		return err
	}
	return errors.Join(session.Lost(tracedb.Loss{Cause: CauseMissed, Records: records}),
		r.describeSession(session), session.End(tracedb.End{Reason: resident.EndText(s.LastEnd)}))
}
