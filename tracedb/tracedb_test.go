package tracedb

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

func create(t testing.TB) *DB {
	t.Helper()
	place, err := Check(filepath.Join(t.TempDir(), "trace.db"), 1)
	if err != nil {
		t.Fatal(err)
	}
	db, err := Create(place)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func threadName(tid uint32) string { return map[uint32]string{11: "loader"}[tid] }

func begin(t testing.TB, db *DB, pid uint32) *Session {
	t.Helper()
	s, err := db.Begin(SessionInfo{PID: pid, Command: "server", Host: "node", Generation: 1, BuildID: []byte{0xab, 0x01}, ThreadName: threadName})
	must(t, err)
	return s
}

// record writes a small session: two overlapping kernels and one apart on one
// GPU, busy for 300 of 500 ns.
func record(t testing.TB, s *Session, bdf uint32) {
	t.Helper()
	must(t,
		s.Agent(Agent{ID: 1, GPU: 0, Name: "gfx90a", BDF: bdf}),
		s.Queue(Queue{ID: 1, Agent: 1, HSAID: 3, SizePackets: 64}),
		s.Launch(Launch{ID: 1, Agent: 1, Symbol: "_Z4gemmPf.kd", Grid: [3]uint32{256, 2, 1}, Workgroup: [3]uint16{64, 1, 1}}),
		s.Launch(Launch{ID: 2, Agent: 1, Symbol: "copy_kernel.kd", Grid: [3]uint32{64, 1, 1}, Workgroup: [3]uint16{64, 1, 1}}),
		s.Dispatches([]Dispatch{
			{Queue: 1, Launch: 1, StartNS: 1000, EndNS: 1150, SubmitNS: 900, Index: 0, TID: 11},
			{Queue: 1, Launch: 2, StartNS: 1050, EndNS: 1200, SubmitNS: 950, Index: 1, TID: 12},
			{Queue: 1, Launch: 1, StartNS: 1400, EndNS: 1500, Index: 2, Flags: ring.FlagSubmitUnknown},
		}),
		s.Untimed(Untimed{Queue: 1, Reason: uint32(ring.ReasonNoSignal), Index: 3, Packets: 2}),
		s.Window(Window{Queue: 1, OpenNS: 800, Closed: true, CloseNS: 1600, EndIndex: 5, Dispatches: 5}),
		s.Pause(Pause{TID: 11, StartNS: 700, DurationNS: 41000, Purpose: "attach"}),
		s.Counters([]Counter{{"queues_seen", 1}}),
		s.End(End{Reason: "detached", ArmedNS: 750, DetachedNS: 1700, Coverage: []Coverage{
			{Queue: 1, Windows: 1, Dispatches: 5, Timed: 3, Untimed: 2},
		}}),
	)
}

// finished makes a trace of one session and opens it for reading.
func finished(t *testing.T) (*sql.DB, string) {
	t.Helper()
	db := create(t)
	record(t, begin(t, db, 42), 0x300)
	must(t, db.Close())
	read, err := Open(db.place.Path)
	must(t, err)
	t.Cleanup(func() { _ = read.Close() })
	return read, db.place.Path
}

// rows runs a query and writes each row as "a|b|c".
func rows(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	result, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer result.Close()
	columns, err := result.Columns()
	must(t, err)
	var out []string
	for result.Next() {
		values := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		must(t, result.Scan(into...))
		text := make([]string, len(values))
		for i, v := range values {
			text[i] = v.String
			if !v.Valid {
				text[i] = "NULL"
			}
		}
		out = append(out, strings.Join(text, "|"))
	}
	must(t, result.Err())
	return out
}

func expect(t *testing.T, db *sql.DB, query string, want ...string) {
	t.Helper()
	if got := rows(t, db, query); !slices.Equal(got, want) {
		t.Errorf("%s\n got %q\nwant %q", query, got, want)
	}
}

func TestCloseLeavesOneFile(t *testing.T) {
	_, path := finished(t)
	entries, err := os.ReadDir(filepath.Dir(path))
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("beside the trace: %v", entries)
	}
}

func TestOwnTables(t *testing.T) {
	db, _ := finished(t)
	expect(t, db, "SELECT pid, command, payload_build_id, armed_ns, detached_ns, end_reason, ended_ns >= begun_ns FROM rtl_session",
		"42|server|ab01|750|1700|detached|1")
	expect(t, db, "SELECT tid, name FROM rtl_thread ORDER BY tid", "11|loader", "12|NULL")
	expect(t, db, "SELECT packet_index, queued_ns, thread_id IS NULL FROM rtl_dispatch", "0|100|0", "1|100|0", "2|NULL|1")
	expect(t, db, "SELECT r.name, packets, packet_index FROM rtl_untimed JOIN rtl_reason r ON r.id = reason_id", "no-signal|2|3")
	expect(t, db, "SELECT dispatches, timed, untimed, unexplained FROM rtl_coverage", "5|3|2|0")
	expect(t, db, "SELECT tid, duration_ns, purpose FROM rtl_pause", "11|41000|attach")
}

// Two GPUs that two processes both number 0 stay separate; a shared GPU is one.
func TestSessionsInOneFile(t *testing.T) {
	db := create(t)
	first, second, third := begin(t, db, 42), begin(t, db, 43), begin(t, db, 44)
	record(t, first, 0x300)
	record(t, second, 0x400)
	record(t, third, 0x300)
	must(t, db.Close())
	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT s.pid, a.gpu_id FROM rtl_agent a JOIN rtl_session s ON s.id = a.session_id",
		"42|0", "43|1", "44|0")
	expect(t, read, "SELECT pid, count(*) FROM rocpd_api GROUP BY pid", "42|3", "43|3", "44|3")
	expect(t, read, "SELECT gpuId, ops, busy_ns FROM busy", "0|6|300", "1|3|300")
	expect(t, read, "SELECT value FROM rocpd_metadata WHERE tag = 'pid'", "42")
}

// Each session has its goroutine; all write to the same tables.
func TestConcurrentSessions(t *testing.T) {
	db := create(t)
	const sessions, batches = 4, 50
	var all sync.WaitGroup
	errs := make(chan error, sessions)
	for pid := range uint32(sessions) {
		s := begin(t, db, pid)
		all.Go(func() {
			err := errors.Join(s.Queue(Queue{ID: 1}), s.Launch(Launch{ID: 1}))
			for range batches {
				err = errors.Join(err, s.Dispatches(make([]Dispatch, 100)), s.Flush())
			}
			errs <- errors.Join(err, s.End(End{}))
		})
	}
	all.Wait()
	for range sessions {
		must(t, <-errs)
	}
	must(t, db.Close())
	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT count(*), count(DISTINCT pid) FROM rocpd_api", "20000|4")
}

// A dispatch may refer to an undefined id: it is kept, as unknown.
func TestUnknownReferences(t *testing.T) {
	db := create(t)
	s := begin(t, db, 42)
	must(t, s.Dispatches([]Dispatch{{StartNS: 5, EndNS: 6}, {StartNS: 7, EndNS: 8}}), s.End(End{}), db.Close())
	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT Name, Calls FROM top", unresolved+"|2")
	expect(t, read, "SELECT DISTINCT gpuId FROM rocpd_op", "999")
}

func TestUnpackArguments(t *testing.T) {
	db := create(t)
	defer db.Close()
	for query, works := range map[string]bool{
		"SELECT c0 FROM rtl_unpack(x'0100000000000000', 1)":    true,
		"SELECT c0 FROM rtl_unpack(x'', 3)":                    true,
		"SELECT c0 FROM rtl_unpack(x'01000000000000', 1)":      false,
		"SELECT c0 FROM rtl_unpack(x'0100000000000000', 0)":    false,
		"SELECT c0 FROM rtl_unpack(x'0100000000000000', 11)":   false,
		"SELECT c0 FROM rtl_unpack(x'0100000000000000', NULL)": false,
		"SELECT c0 FROM rtl_unpack":                            false,
	} {
		var n int64
		err := db.conn.QueryRowContext(t.Context(), query).Scan(&n)
		if works && err != nil && !errors.Is(err, sql.ErrNoRows) || !works && (err == nil || errors.Is(err, sql.ErrNoRows)) {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestKernelName(t *testing.T) {
	for symbol, want := range map[string]string{
		"_Z4gemmPf.kd":       "gemm(float*)",
		"plain_kernel.kd":    "plain_kernel",
		"Cijk_Ailk_MT128.kd": "Cijk_Ailk_MT128",
		"":                   unresolved,
		".kd":                unresolved,
		"_Zbroken":           "_Zbroken",
	} {
		if got := KernelName(symbol); got != want {
			t.Errorf("%q: %q, want %q", symbol, got, want)
		}
	}
}

// Each reason in abi.h must have a text here.
func TestEveryReasonHasText(t *testing.T) {
	for id, r := range Reasons {
		if r.Name == "" || r.Text == "" {
			t.Errorf("reason %d: %+v", id, r)
		}
	}
}

// FuzzKernelName: demangling a hostile symbol has limits of size and time.
func FuzzKernelName(f *testing.F) {
	f.Add("_Z4gemmPf.kd")
	f.Add("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEENS_6detail5ArrayIPcLi1EEEEEviT0_T1_.kd")
	f.Add("_ZSt4swapIN3FooIS_S_S_S_S_S_EEEvRT_S3_")
	f.Fuzz(func(t *testing.T, symbol string) {
		const longest = 1<<14 + 64
		if name := KernelName(symbol); name == "" || len(name) > max(longest, len(symbol)) {
			t.Fatalf("%d bytes from %d", len(name), len(symbol))
		}
	})
}

// A context that was dropped from the cache gets another id, and nothing else changes.
func TestContextsAreBounded(t *testing.T) {
	db := create(t)
	s := begin(t, db, 42)
	again := []Dispatch{{Index: 1, StartNS: 10, EndNS: 20, TID: 7}}
	must(t, s.Dispatches(again))
	s.places = maxContexts
	must(t, s.Dispatches([]Dispatch{{Index: 2, StartNS: 10, EndNS: 20, TID: 8}}), s.Dispatches(again), db.Close())
	if len(s.contexts) != 2 || s.places != 2*(2+len(contextPage{})) {
		t.Errorf("%d streams and %d places kept", len(s.contexts), s.places)
	}
	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT packet_index, tid FROM rtl_dispatch d JOIN rtl_thread t ON t.id = d.thread_id ORDER BY d.id", "1|7", "2|8", "1|7")
	expect(t, read, "SELECT count(*), count(DISTINCT thread_id) FROM rtl_context", "3|2")
}

// Strings that are no longer in memory are found in the file.
func TestManyStrings(t *testing.T) {
	defer func(most int) { mostStrings = most }(mostStrings)
	mostStrings = 3
	db := create(t)
	s := begin(t, db, 42)
	ids := map[string]int64{}
	must(t, s.Kind(0, func(w KindWriter) error {
		for range 3 {
			for _, text := range []string{"a", "b", "c", "d", "e", "f", "g"} {
				id, err := w.String(text)
				if before, known := ids[text]; err != nil || known && before != id || len(db.strings) > mostStrings {
					t.Errorf("%s: row %d, before %d, %v; %d in memory", text, id, before, err, len(db.strings))
				}
				ids[text] = id
			}
		}
		return nil
	}), s.End(End{}), db.Close())
}
