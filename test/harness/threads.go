package harness

import (
	"database/sql"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Threads is the program whose threads log what they do.
func Threads(args ...string) Workload {
	return Workload{Program: "threads", Args: args, LogsCalls: true}
}

// ThreadEntry is an entry of the program's log; testdata/workloads/threads.cpp has their meanings.
type ThreadEntry struct {
	What           string
	TID            int64
	Function       string
	BeginNS, EndNS int64
	Waker          int64
	Address        int64
}

// ThreadLog reads the log of an ended program.
func (p *Process) ThreadLog(t testing.TB) (all []ThreadEntry) {
	t.Helper()
	b, err := os.ReadFile(p.calls)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var e ThreadEntry
		if err := scanLine(line, &e.What, &e.TID, &e.Function, &e.BeginNS, &e.EndNS, &e.Waker, &e.Address); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

// ThreadRows are the rows of a trace that tell what threads did. What is NULL is 0, and a system call -1.
type ThreadRows struct {
	BegunNS, EndedNS int64
	Method, Detail   string
	Samples          []ThreadSample
	Waits            []ThreadWait
	ShortWaits       map[int64]int64 // by thread
	Lost             int64
	Locks            []ThreadLock // Python's
}

// ThreadLock is where a lock is in its process's memory.
type ThreadLock struct{ Address, Bytes int64 }

// Waits reports whether a thread waited for the lock.
func (l ThreadLock) Waits(w *ThreadWait) bool {
	return w.Syscall == unix.SYS_FUTEX && w.Address >= l.Address && w.Address < l.Address+l.Bytes
}

// ThreadSample is a sample with the names of its stack's frames, the innermost first.
type ThreadSample struct {
	TID, TimeNS, Clock, State int64
	Stack                     []ThreadFrame
	Cut                       bool
}

// ThreadFrame is a frame of a stack.
type ThreadFrame struct {
	Kind       int64
	Name, File string
	Line       int64
}

// ThreadWait is a time in which a thread did not run.
type ThreadWait struct {
	TID                  int64
	OutNS, WokenNS, InNS int64
	State, Syscall       int64
	Address              int64
	Waker, OtherPID      int64
	Stack                []ThreadFrame
	Cut                  bool
}

// stacks are the stacks of a trace by id.
type stacks struct {
	parent, frame map[int64]int64
	cut           map[int64]bool
	frames        map[int64]ThreadFrame
}

func (s stacks) of(id int64) (frames []ThreadFrame, cut bool) {
	for ; id != 0; id = s.parent[id] {
		frames, cut = append(frames, s.frames[s.frame[id]]), s.cut[id]
	}
	return frames, cut
}

// ReadThreads reads the rows of one session.
func ReadThreads(t testing.TB, path string, session int64) (r ThreadRows) {
	t.Helper()
	db, err := tracedb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	query := func(scan func(*sql.Rows) error, text string) {
		rows, err := db.Query(text, session)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			if err := scan(rows); err != nil {
				t.Fatal(err)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	query(func(row *sql.Rows) error { return row.Scan(&r.BegunNS, &r.EndedNS, &r.Method, &r.Detail) },
		`SELECT begun_ns, coalesce(ended_ns, 0), m.string, coalesce(d.string, '') FROM rtl_cpu_window
			JOIN rocpd_string m ON m.id = method_id LEFT JOIN rocpd_string d ON d.id = detail_id WHERE session_id = ?`)
	query(func(row *sql.Rows) error { return row.Scan(&r.Lost) }, `SELECT coalesce(sum(events), 0) FROM rtl_cpu_loss WHERE session_id = ?`)
	query(func(row *sql.Rows) error {
		var l ThreadLock
		err := row.Scan(&l.Address, &l.Bytes)
		r.Locks = append(r.Locks, l)
		return err
	}, `SELECT address, bytes FROM rtl_cpu_lock WHERE kind = 0 AND session_id = ?`)
	s := stacks{map[int64]int64{}, map[int64]int64{}, map[int64]bool{}, map[int64]ThreadFrame{}}
	query(func(row *sql.Rows) error {
		var id int64
		var f ThreadFrame
		err := row.Scan(&id, &f.Kind, &f.Name, &f.File, &f.Line)
		s.frames[id] = f
		return err
	}, `SELECT f.id, kind, n.string, p.string, coalesce(line, 0) FROM rtl_cpu_frame f
		JOIN rocpd_string n ON n.id = name_id JOIN rocpd_string p ON p.id = file_id WHERE session_id = ?`)
	query(func(row *sql.Rows) error {
		var id, parent, frame, cut int64
		err := row.Scan(&id, &parent, &frame, &cut)
		s.parent[id], s.frame[id], s.cut[id] = parent, frame, cut == 1
		return err
	}, `SELECT id, coalesce(parent_id, 0), frame_id, cut FROM rtl_cpu_stack WHERE session_id = ?`)
	query(func(row *sql.Rows) error {
		var x ThreadSample
		var stack int64
		err := row.Scan(&x.TID, &x.TimeNS, &x.Clock, &x.State, &stack)
		x.Stack, x.Cut = s.of(stack)
		r.Samples = append(r.Samples, x)
		return err
	}, `SELECT tid, time_ns, clock, state, coalesce(stack_id, 0) FROM rtl_cpu_sample s JOIN rtl_thread t ON t.id = thread_id WHERE s.session_id = ? ORDER BY time_ns`)
	query(func(row *sql.Rows) error {
		var x ThreadWait
		var stack int64
		err := row.Scan(&x.TID, &x.OutNS, &x.WokenNS, &x.InNS, &x.State, &x.Syscall, &x.Address, &x.Waker, &x.OtherPID, &stack)
		x.Stack, x.Cut = s.of(stack)
		r.Waits = append(r.Waits, x)
		return err
	}, `SELECT t.tid, out_ns, coalesce(woken_ns, 0), coalesce(in_ns, 0), state, coalesce(syscall, -1), coalesce(argument0, 0),
		coalesce(k.tid, 0), coalesce(waker_pid, 0), coalesce(stack_id, 0)
		FROM rtl_cpu_wait w JOIN rtl_thread t ON t.id = thread_id LEFT JOIN rtl_thread k ON k.id = waker_thread_id WHERE w.session_id = ? ORDER BY out_ns`)
	r.ShortWaits = map[int64]int64{}
	query(func(row *sql.Rows) error {
		var tid, n int64
		err := row.Scan(&tid, &n)
		r.ShortWaits[tid] += n
		return err
	}, `SELECT tid, short_waits FROM rtl_cpu_thread c JOIN rtl_thread t ON t.id = thread_id WHERE c.session_id = ?`)
	return r
}

// Sampled returns the samples by a clock.
func (r ThreadRows) Sampled(clock int64) (all []ThreadSample) {
	for _, s := range r.Samples {
		if s.Clock == clock {
			all = append(all, s)
		}
	}
	return all
}

// Ran reports whether a sample is of a thread that ran.
func (s ThreadSample) Ran() bool { return s.State != cputrace.DidNotRun }
