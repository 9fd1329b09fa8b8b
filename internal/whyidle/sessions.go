package whyidle

import (
	"context"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// sessions is what the sessions of a trace say about their threads.
type sessions struct {
	windows   map[int64][]Window // by session, in the order of their begins
	sessionOf map[int64]int64    // by thread
	locks     map[int64][]lock   // Python's, by session
	byPID     map[int64][]int64  // those whose waits were recorded, if there are several
	threads   map[threadKey]int64
}

// threadKey is a thread of a session, by its id in the process's pid namespace.
type threadKey struct{ session, tid int64 }

// lock is where a lock is in its process's memory.
type lock struct{ address, bytes uint64 }

func readSessions(ctx context.Context, tr *traceread.Trace, windows []Window) (*sessions, error) {
	s := &sessions{
		windows: map[int64][]Window{}, sessionOf: map[int64]int64{}, locks: map[int64][]lock{}, byPID: map[int64][]int64{}, threads: map[threadKey]int64{},
	}
	for _, w := range windows {
		s.windows[w.Session.ID] = append(s.windows[w.Session.ID], w)
		pid := w.Session.Process.ID.PID
		if w.Scheduling && !slices.Contains(s.byPID[pid], w.Session.ID) {
			s.byPID[pid] = append(s.byPID[pid], w.Session.ID)
		}
	}
	several := len(s.byPID) > 1
	err := tr.Define(ctx, func(r traceread.Row) error {
		var thread, session, tid int64
		err := r.Scan(&thread, &session, &tid)
		s.sessionOf[thread] = session
		if several {
			s.threads[threadKey{session, tid}] = thread
		}
		return err
	}, "SELECT id, session_id, tid FROM rtl_thread")
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
		var session, address, bytes int64
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

// threadIn returns the thread that another process's wait names, if that process's waits were recorded at this time: then the
// recorder has its id in its own pid namespace. A pid is the recorder's, in the first namespace. tracedb.Null: there is none.
func (s *sessions) threadIn(pid, tid, atNS int64) int64 {
	for _, session := range s.byPID[pid] {
		thread, known := s.threads[threadKey{session, tid}]
		if known && s.waitsSince(thread, traceread.Span{BeginNS: atNS, EndNS: atNS + 1}) == atNS {
			return thread
		}
	}
	return tracedb.Null
}

// waitsSince returns from when on the waits of a thread were recorded, in a time and up to its end; the end: they were not.
func (s *sessions) waitsSince(thread int64, in traceread.Span) int64 {
	windows := s.windows[s.sessionOf[thread]]
	for i := range windows {
		w := &windows[i]
		if w.Scheduling && w.BeginNS < in.EndNS && in.EndNS <= w.EndNS {
			return max(w.BeginNS, in.BeginNS)
		}
	}
	return in.EndNS
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
