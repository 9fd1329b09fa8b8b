package scratch

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// sample is what one process does with the queues at 0x10 and 0x20.
func sample() []Span {
	return []Span{
		{Operation: Allocate, TID: 7, Queue: 0x10, Dispatch: 3, Bytes: 4096, Slots: 4, StartNS: 1000, EndNS: 1100},
		{Operation: Allocate, TID: 7, Queue: 0x20, Dispatch: 4, Bytes: 1 << 20, Slots: 8, Flags: 1, StartNS: 1200, EndNS: 1500},
		{Operation: Free, TID: 7, Queue: 0x20, Flags: 1, StartNS: 1600, EndNS: 1650},
		{Operation: Reclaim, TID: 8, Queue: 0x30, Flags: 2, EndNS: 1700},
		{Operation: Allocate, TID: 7, Queue: 0x10, Dispatch: 9, StartNS: 1800},
	}
}

// write writes the sample of two processes. The address 0x20 is that of two queues, of two GPUs.
func write(t *testing.T, described ...Coverage) string {
	t.Helper()
	db, path := create(t)
	for pid := range uint32(2) {
		s := begin(t, db, 42+pid)
		must(t,
			s.Agent(tracedb.Agent{ID: 1, GPU: 0, Name: "gfx90a", BDF: 0x300}),
			s.Agent(tracedb.Agent{ID: 2, GPU: 1, Name: "gfx90a", BDF: 0x400}),
			s.Queue(tracedb.Queue{ID: 1, Agent: 2, Address: 0x10}),
			s.Queue(tracedb.Queue{ID: 2, Agent: 1, Address: 0x20}),
			s.Queue(tracedb.Queue{ID: 3, Agent: 2, Address: 0x20}),
			s.Kind(2, func(w tracedb.KindWriter) error {
				for i := range described {
					must(t, describe(w, &described[i]))
				}
				return Store(w, sample())
			}),
			s.End(tracedb.End{Reason: "detached", Kinds: []tracedb.KindCoverage{{Kind: "scratch-memory", Begun: 9, Timed: 8, Unexplained: 1}}}))
	}
	must(t, db.Close())
	return path
}

func TestView(t *testing.T) {
	read, err := tracedb.Open(write(t))
	must(t, err)
	defer read.Close()
	expect(t, read, `SELECT operation, bytes, slots, gpu, queue, dispatch, use_once, alternate, thread, start_ns, end_ns, duration_ns
		FROM scratch_memory WHERE pid = 42 ORDER BY id`,
		"allocate|4096|4|1|1|3|0|0|7|1000|1100|100",
		"allocate|1048576|8|NULL|NULL|4|1|0|7|1200|1500|300",
		"free|NULL|NULL|NULL|NULL|NULL|1|0|7|1600|1650|50",
		"reclaim|NULL|NULL|NULL|NULL|NULL|0|1|8|NULL|1700|NULL",
		"allocate|NULL|NULL|1|1|9|0|0|7|1800|NULL|NULL")
}

// reported returns the section on a trace; nil: there is none.
func reported(t *testing.T, path string, window traceread.Span) *kind.Section {
	t.Helper()
	tr, err := traceread.Open(t.Context(), path)
	must(t, err)
	defer tr.Close()
	s, err := read(&kind.Reading{Ctx: t.Context(), Trace: tr, Window: window})
	must(t, err)
	return s
}

func expectText(t *testing.T, s *kind.Section, want ...string) {
	t.Helper()
	var got []string
	for _, l := range s.Lines {
		got = append(got, l.Label+"|"+l.Text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestReport(t *testing.T) {
	s := reported(t, write(t, Coverage{Events: 6, Buried: 2}), traceread.Always)
	expectText(t, s,
		"Scratch|16 of 18 events recorded",
		"|another tool records scratch memory, too: events that it does not pass on are missing",
		"|2 begun whose record never arrived",
		"|4 operations without a start or an end in the recording",
		"|allocate: 4, 2.11 MB in 800 ns, longest 300 ns; 2 for one dispatch only",
		"|free: 2 in 100 ns, longest 50 ns")
	if s.Timed != 6 {
		t.Errorf("%d timed", s.Timed)
	}
	rows := operationTable.Rows(s.Value)
	if want := []any{"allocate", int64(4), int64(2*4096 + 2<<20), int64(2), int64(800), int64(300)}; len(rows) != 2 || !slices.Equal(rows[0], want) {
		t.Errorf("%v", rows)
	}
	in := reported(t, write(t), traceread.Span{BeginNS: 1200, EndNS: 1600}).Value.(*Report)
	if len(in.Operations) != 1 || in.Operations[0].Count != 2 {
		t.Errorf("%+v", in)
	}
}

// A trace says whether its runtime has the events, and whether they were recorded.
func TestSilence(t *testing.T) {
	for _, events := range []uint32{0, 6} {
		db, path := create(t)
		s := begin(t, db, 42)
		must(t, s.Kind(0, func(w tracedb.KindWriter) error { return describe(w, &Coverage{Events: events}) }),
			s.End(tracedb.End{Kinds: []tracedb.KindCoverage{{Kind: "scratch-memory"}}}), db.Close())
		want := "allocations of scratch memory"
		if events == 0 {
			want = "scratch memory (this runtime does not tell: ROCr before 6.0)"
		}
		if got := reported(t, path, traceread.Always).None; got != want {
			t.Errorf("%d events: %q", events, got)
		}
	}
	expectText(t, reported(t, write(t, Coverage{}), traceread.Span{}),
		"Scratch|16 of 18 events recorded",
		"|2 sessions without: this runtime does not tell: ROCr before 6.0",
		"|2 begun whose record never arrived",
		"|4 operations without a start or an end in the recording")
	db, path := create(t)
	must(t, begin(t, db, 42).End(tracedb.End{}), db.Close())
	if s := reported(t, path, traceread.Always); s != nil {
		t.Errorf("not recorded: %+v", s)
	}
}

// TestHostile: whatever numbers a file has, its view and its report come to their ends.
func TestHostile(t *testing.T) {
	path := write(t)
	change(t, path, `DELETE FROM rtl_scratch; INSERT INTO rtl_scratch VALUES
		(1, 1, 9, 9, 0, 9223372036854775807, 9223372036854775807, -1, -1, 1, 9223372036854775807),
		(2, 1, 9, 9, 0, 9223372036854775807, 9223372036854775807, -1, -1, 1, 9223372036854775807),
		(3, 1, 9, 9, 2, 1, 1, 1, 1, -9223372036854775808, 9223372036854775807),
		(4, 'x', x'01', 1e300, 'q', NULL, -1, 'y', 'z', 'z', x'00')`)
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT count(*), count(start_s) FROM scratch_memory", "4|4")
	change(t, path, "DELETE FROM rtl_scratch WHERE id = 4") // no reader takes such a session
	if r := reported(t, path, traceread.Always).Value.(*Report); r.Operations[0].Count != 2 {
		t.Errorf("%+v", r)
	}
}

// TestOlderTrace: a trace of an older version has no such tables.
func TestOlderTrace(t *testing.T) {
	db, path := create(t)
	must(t, db.Close())
	change(t, path, "DROP VIEW scratch_memory; DROP TABLE rtl_scratch")
	tr, err := traceread.Open(t.Context(), path)
	must(t, err)
	defer tr.Close()
	if is, err := Kind.IsIn(tr); err != nil || is {
		t.Errorf("%v, %v", is, err)
	}
}

// change runs SQL in a file as its owner can.
func change(t *testing.T, path, statements string) {
	t.Helper()
	raw, err := sql.Open("sqlite3", path)
	must(t, err)
	_, err = raw.Exec(statements)
	must(t, err, raw.Close())
}

func expect(t *testing.T, db *sql.DB, query string, want ...string) {
	t.Helper()
	found, err := db.Query(query)
	must(t, err)
	defer found.Close()
	columns, err := found.Columns()
	must(t, err)
	var got []string
	for found.Next() {
		values := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		must(t, found.Scan(into...))
		row := make([]string, len(values))
		for i, v := range values {
			if row[i] = "NULL"; v.Valid {
				row[i] = v.String
			}
		}
		got = append(got, strings.Join(row, "|"))
	}
	must(t, found.Err())
	if !slices.Equal(got, want) {
		t.Errorf("%s\n got %q\nwant %q", query, got, want)
	}
}
