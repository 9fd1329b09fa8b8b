package session

import (
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const causeUnread = "the runtime was shut down before its first records could be taken"

// wasUnread: the application has shut its runtime down between our attach and
// our look at the ring, and the ring has gone with it.
func (r *recording) wasUnread() bool {
	state, err := r.settle()
	return err == nil && state != ring.StateActive && r.control.Snapshot().LastEnd == ring.EndShutDown
}

// noteUnread gives such a session its place in the trace.
func (r *recording) noteUnread() error {
	s, records := r.control.Snapshot(), r.control.Counters().Records
	r.ui.Warn(fmt.Sprintf("%s: %d are missing", causeUnread, records))
	r.ended, r.attached = s.LastEnd, false
	session, err := r.beginSession(r.info(s))
	if err != nil {
		return err
	}
	return errors.Join(session.Lost(tracedb.Loss{Cause: causeUnread, Records: records}),
		r.describeSession(session), session.End(tracedb.End{Reason: endText(s.LastEnd)}))
}
