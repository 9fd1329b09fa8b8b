package session

import (
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/resident"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// CauseUnread stands in a trace for the records of a session that was over too soon.
const CauseUnread = "the session had ended before its first records could be taken"

// wasUnread: the session has ended between our attach and our look at the ring, and the
// ring has gone with it: the application has shut its runtime down, or we were held up
// for so long that the payload took us for dead.
func (r *recording) wasUnread() bool {
	state, err := r.settle()
	return err == nil && state != ring.StateActive
}

// noteUnread gives such a session its place in the trace.
func (r *recording) noteUnread() error {
	s, records := r.control.Snapshot(), r.control.Counters().Records
	r.ui.Warn(fmt.Sprintf("%s (%s): %s missing", CauseUnread, resident.EndText(s.LastEnd), humanize.Things(int64(records), "record")))
	r.ended = s.LastEnd
	if r.isAtRest() {
		r.attached = false
	}
	session, err := r.db.Begin(r.info(s))
	if err != nil {
		return err
	}
	return errors.Join(session.Lost(tracedb.Loss{Cause: CauseUnread, Records: records}),
		r.describeSession(session), session.End(tracedb.End{Reason: resident.EndText(s.LastEnd)}))
}
