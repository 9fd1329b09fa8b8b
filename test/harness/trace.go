package harness

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Trace is a trace file's rtl_* tables, read as any SQLite client would read them.
type Trace struct {
	Sessions   []Session
	Queues     map[int64]Queue
	Launches   map[int64]Launch
	Dispatches []Dispatch
	Untimed    []Untimed
	Filtered   []Filtered
	LeftOut    map[string]LeftOut // filtered kernels by name
	Windows    []Window
	Coverage   []Coverage
	Losses     []Loss
	Pauses     []Pause
	Counters   map[string]int64 // of all sessions
	Kinds      map[string]KindAccount
	LostCalls  int64 // calls among the losses: of APIs, markers, allocations, scratch memory
}

type (
	Session struct {
		ID, PID, Generation   int64
		ArmedNS, DetachedNS   int64
		BegunNS, EndedNS      int64 // EndedNS 0: NULL
		UntilNS               int64 // records are complete up to here
		EndReason             string
		MonotonicDrift        int64 // of CLOCK_MONOTONIC against CLOCK_BOOTTIME, from start to end
		RealtimeOffsetIsKnown bool

		firstOpenNS, firstCloseNS int64 // see span
	}
	Queue struct {
		Key
		Session, GPU, Size int64
	}
	Launch struct {
		Symbol string
		Name   string // for people
		Object uint64
		GPU    int64 // of the code
		Grid   [3]uint32
	}
	Dispatch struct {
		Queue, Launch  int64
		TID            int64 // 0: NULL
		Index          uint64
		StartNS, EndNS int64
		QueuedNS       int64
		SubmitKnown    bool
		Flags          int64
		AppSignal      bool
	}
	Untimed struct {
		Queue          int64
		Reason         string
		Index, Packets uint64
		SubmitNS       int64 // of the first; 0: NULL
	}
	Window struct {
		Queue                     int64
		OpenedNS, ClosedNS        int64
		First, End                uint64
		Closed                    bool
		Dispatches, Others, After int64
		RawBefore, QueuedBefore   int64
	}
	Coverage struct {
		Queue, Windows, WindowsOpen, Dispatches, Timed, Untimed, Unexplained, Others, After, RawBefore int64
	}
	Loss struct {
		Cause   string
		Records int64
	}
	Pause struct {
		TID, StartNS, DurationNS int64
		Purpose                  string
	}
)

// sound opens a trace that has to be sound.
func sound(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := tracedb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var says string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&says); err != nil || says != "ok" {
		db.Close()
		t.Fatalf("%s: integrity check: %s, %v", path, says, err)
	}
	return db
}

// MustBeSound opens a trace as any reader would, which takes back what was not
// committed.
func MustBeSound(t testing.TB, path string) {
	t.Helper()
	sound(t, path).Close()
}

// ReadTrace reads a trace that has to be complete and sound.
func ReadTrace(t testing.TB, path string) *Trace {
	t.Helper()
	db := sound(t, path)
	defer db.Close()
	tr := &Trace{Queues: map[int64]Queue{}, Launches: map[int64]Launch{}, Counters: map[string]int64{}, Kinds: map[string]KindAccount{}}
	if err := tr.read(db); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return tr
}

func (tr *Trace) read(db *sql.DB) error {
	return errors.Join(tr.readSessions(db), tr.readDefinitions(db), tr.readDispatches(db), tr.readUntimed(db), tr.readFiltered(db),
		tr.readWindows(db), tr.readCoverage(db), tr.readRest(db))
}

func each(db *sql.DB, query string, scan func(*sql.Rows) error) error {
	rows, err := db.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (tr *Trace) readSessions(db *sql.DB) error {
	return each(db, `SELECT id, pid, generation, coalesce(armed_ns, 0), coalesce(detached_ns, 0), begun_ns,
		coalesce(ended_ns, 0), coalesce(recorded_until_ns, 0), coalesce(end_reason, ''), coalesce(monotonic_offset_end_ns - monotonic_offset_start_ns, 0),
		realtime_offset_start_ns IS NOT NULL FROM rtl_session ORDER BY id`,
		func(r *sql.Rows) error {
			var s Session
			err := r.Scan(&s.ID, &s.PID, &s.Generation, &s.ArmedNS, &s.DetachedNS, &s.BegunNS, &s.EndedNS, &s.UntilNS, &s.EndReason,
				&s.MonotonicDrift, &s.RealtimeOffsetIsKnown)
			tr.Sessions = append(tr.Sessions, s)
			return err
		})
}

func (tr *Trace) readDefinitions(db *sql.DB) error {
	return errors.Join(
		each(db, `SELECT q.id, q.session_id, q.address, q.hsa_id, q.size_packets, coalesce(a.ordinal, -1)
			FROM rtl_queue q LEFT JOIN rtl_agent a ON a.id = q.agent_id`, func(r *sql.Rows) error {
			var (
				id, address, hsaID int64
				q                  Queue
			)
			err := r.Scan(&id, &q.Session, &address, &hsaID, &q.Size, &q.GPU)
			q.Key = Key{uint64(address), uint64(hsaID)}
			tr.Queues[id] = q
			return err
		}),
		each(db, `SELECT l.id, s.string, n.string, l.kernel_object, coalesce(a.ordinal, -1), l.grid_x, l.grid_y, l.grid_z FROM rtl_launch l
			JOIN rocpd_string s ON s.id = l.symbol_id JOIN rocpd_string n ON n.id = l.name_id LEFT JOIN rtl_agent a ON a.id = l.agent_id`, func(r *sql.Rows) error {
			var (
				id, object int64
				l          Launch
			)
			err := r.Scan(&id, &l.Symbol, &l.Name, &object, &l.GPU, &l.Grid[0], &l.Grid[1], &l.Grid[2])
			l.Object = uint64(object)
			tr.Launches[id] = l
			return err
		}))
}

func (tr *Trace) readDispatches(db *sql.DB) error {
	var n int
	if err := db.QueryRow("SELECT count(*) FROM rtl_dispatch").Scan(&n); err != nil {
		return err
	}
	tr.Dispatches = make([]Dispatch, 0, n)
	return each(db, `SELECT d.queue_id, d.launch_id, coalesce(t.tid, 0), d.packet_index, d.start_ns, d.duration_ns,
		coalesce(d.queued_ns, 0), d.queued_ns IS NOT NULL, d.flags
		FROM rtl_dispatch d LEFT JOIN rtl_thread t ON t.id = d.thread_id ORDER BY d.id`, func(r *sql.Rows) error {
		var (
			d               Dispatch
			index, duration int64
		)
		err := r.Scan(&d.Queue, &d.Launch, &d.TID, &index, &d.StartNS, &duration, &d.QueuedNS, &d.SubmitKnown, &d.Flags)
		d.Index, d.EndNS, d.AppSignal = uint64(index), d.StartNS+duration, d.Flags&1 != 0
		tr.Dispatches = append(tr.Dispatches, d)
		return err
	})
}

func (tr *Trace) readUntimed(db *sql.DB) error {
	return each(db, `SELECT u.queue_id, r.name, u.packet_index, u.packets, coalesce(u.submit_ns, 0) FROM rtl_untimed u
		JOIN rtl_reason r ON r.id = u.reason_id`, func(r *sql.Rows) error {
		var u Untimed
		err := r.Scan(&u.Queue, &u.Reason, &u.Index, &u.Packets, &u.SubmitNS)
		tr.Untimed = append(tr.Untimed, u)
		return err
	})
}

func (tr *Trace) readWindows(db *sql.DB) error {
	return each(db, `SELECT queue_id, opened_ns, coalesce(closed_ns, 0), first_index, coalesce(end_index, 0),
		end_index IS NOT NULL, coalesce(dispatches, 0), coalesce(others, 0), coalesce(after_detach, 0), raw_before, queued_before
		FROM rtl_window ORDER BY queue_id, opened_ns`, func(r *sql.Rows) error {
		var w Window
		err := r.Scan(&w.Queue, &w.OpenedNS, &w.ClosedNS, &w.First, &w.End, &w.Closed, &w.Dispatches, &w.Others, &w.After, &w.RawBefore, &w.QueuedBefore)
		tr.Windows = append(tr.Windows, w)
		return err
	})
}

func (tr *Trace) readCoverage(db *sql.DB) error {
	return each(db, `SELECT queue_id, windows, windows_open, dispatches, timed, untimed, unexplained, others, after_detach,
		raw_before FROM rtl_coverage`, func(r *sql.Rows) error {
		var c Coverage
		err := r.Scan(&c.Queue, &c.Windows, &c.WindowsOpen, &c.Dispatches, &c.Timed, &c.Untimed, &c.Unexplained, &c.Others, &c.After, &c.RawBefore)
		tr.Coverage = append(tr.Coverage, c)
		return err
	})
}

func (tr *Trace) readRest(db *sql.DB) error {
	return errors.Join(
		db.QueryRow("SELECT coalesce(sum(unexplained), 0) FROM rtl_kind_coverage WHERE kind <> 'memory-copy'").Scan(&tr.LostCalls),
		each(db, "SELECT kind, coalesce(sum(begun), 0), coalesce(sum(timed), 0), coalesce(sum(untimed), 0), coalesce(sum(unexplained), 0) FROM rtl_kind_coverage GROUP BY kind", func(r *sql.Rows) error {
			var kind string
			var a KindAccount
			err := r.Scan(&kind, &a.Begun, &a.Timed, &a.Untimed, &a.Unexplained)
			tr.Kinds[kind] = a
			return err
		}),
		each(db, "SELECT cause, records FROM rtl_loss", func(r *sql.Rows) error {
			var l Loss
			err := r.Scan(&l.Cause, &l.Records)
			tr.Losses = append(tr.Losses, l)
			return err
		}),
		each(db, "SELECT tid, start_ns, duration_ns, purpose FROM rtl_pause", func(r *sql.Rows) error {
			var p Pause
			err := r.Scan(&p.TID, &p.StartNS, &p.DurationNS, &p.Purpose)
			tr.Pauses = append(tr.Pauses, p)
			return err
		}),
		each(db, "SELECT name, sum(value) FROM rtl_counter GROUP BY name", func(r *sql.Rows) error {
			var (
				name  string
				value int64
			)
			err := r.Scan(&name, &value)
			tr.Counters[name] = value
			return err
		}))
}
