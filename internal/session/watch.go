package session

import (
	"sync/atomic"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Watch shows the state of a recording's trace to other goroutines.
type Watch struct{ db atomic.Pointer[tracedb.DB] }

// RecordedUntilNS returns the time up to which the trace has everything, in ns of CLOCK_BOOTTIME; 0: not known.
func (w *Watch) RecordedUntilNS() uint64 {
	if db := w.db.Load(); db != nil {
		return db.RecordedUntil()
	}
	return 0
}

// note notes the trace; w may be nil.
func (w *Watch) note(db *tracedb.DB) {
	if w != nil {
		w.db.Store(db)
	}
}
