package whyidle

import (
	"context"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// sessions is what the sessions of a trace say about their threads.
type sessions struct {
	windows   map[int64][]Window // by session, in the order of their begins
	sessionOf map[int64]int64    // by thread
	locks     map[int64][]lock   // Python's, by session
}

// lock is where a lock is in its process's memory.
type lock struct{ address, bytes uint64 }

func readSessions(ctx context.Context, tr *traceread.Trace, windows []Window) (*sessions, error) {
	s := &sessions{windows: map[int64][]Window{}, sessionOf: map[int64]int64{}, locks: map[int64][]lock{}}
	for _, w := range windows {
		s.windows[w.Session.ID] = append(s.windows[w.Session.ID], w)
	}
	err := tr.Define(ctx, func(r traceread.Row) error {
		var thread, session int64
		err := r.Scan(&thread, &session)
		s.sessionOf[thread] = session
		return err
	}, "SELECT id, session_id FROM rtl_thread")
	if err != nil {
		return nil, err
	}
	return s, s.readLocks(ctx, tr)
}

// readLocks reads where Python's locks are. Traces of former versions do not have it.
func (s *sessions) readLocks(ctx context.Context, tr *traceread.Trace) error {
	if has, err := tracedb.HasTables(tr.DB, "rtl_cpu_lock"); err != nil || !has {
		return err
	}
	return tr.Define(ctx, func(r traceread.Row) error {
		var session int64
		var address, bytes int64
		err := r.Scan(&session, &address, &bytes)
		if len(s.locks[session]) < cputrace.MostLocks && bytes > 0 {
			s.locks[session] = append(s.locks[session], lock{uint64(address), uint64(bytes)})
		}
		return err
	}, "SELECT DISTINCT session_id, address, bytes FROM rtl_cpu_lock WHERE kind = ?", cputrace.GIL)
}

// isGIL reports whether an address in the memory of a thread's process is in a lock of Python's.
func (s *sessions) isGIL(thread, address int64) bool {
	for _, l := range s.locks[s.sessionOf[thread]] {
		if uint64(address)-l.address < l.bytes {
			return true
		}
	}
	return false
}

// windowEnd returns the end of the window in which a thread stopped running; LatestNS: it is not known.
func (s *sessions) windowEnd(thread, outNS int64) int64 {
	for _, w := range s.windows[s.sessionOf[thread]] {
		if w.EndNS >= outNS {
			return w.EndNS
		}
	}
	return traceread.LatestNS
}
