package markers

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// sample is a range with a mark, a process range, and one range of each kind that is not whole.
func sample() []Marker {
	text := func(m Marker, s string) Marker { m.Text, m.HasText = s, true; return m }
	return []Marker{
		text(Marker{Form: Mark, TID: 7, EndTID: 7, Level: 1, StartNS: 1050, EndNS: 1050}, "loaded"),
		text(Marker{Form: Range, TID: 7, EndTID: 7, Level: 0, StartNS: 1000, EndNS: 1100}, "step"),
		text(Marker{Form: ProcessRange, TID: 7, EndTID: 8, Level: NoLevel, Number: 3, StartNS: 1010, EndNS: 1500}, "request"),
		{Form: Range, EndTID: 8, Level: NoLevel, EndNS: 1020, Missing: MissingStart},
		text(Marker{Form: Range, TID: 8, Level: 2, StartNS: 1600, Missing: MissingEnd}, "step"),
	}
}

func TestStore(t *testing.T) {
	db, path := create(t)
	for pid := range uint32(2) {
		s := begin(t, db, 42+pid)
		must(t,
			s.Kind(5, func(w tracedb.KindWriter) error {
				must(t, describe(w, Libraries{Recorded, Taken}))
				return Store(w, sample())
			}),
			s.End(tracedb.End{Reason: "detached"}))
	}
	must(t, db.Close())
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT name, kind, level, pid, thread, end_thread, start_ns, end_ns, duration_ns, incomplete FROM marker WHERE pid = 43",
		"loaded|mark|1|43|7|7|1050|1050|0|NULL",
		"step|range|0|43|7|7|1000|1100|100|NULL",
		"request|process range|NULL|43|7|8|1010|1500|490|NULL",
		"NULL|range|NULL|43|NULL|8|NULL|1020|NULL|began before the recording",
		"step|range|2|43|8|NULL|1600|NULL|NULL|open at the end of the recording")
	expect(t, read, "SELECT session_id, library, text FROM rtl_marker_library l JOIN rtl_marker_way w ON w.id = l.way ORDER BY l.id",
		"1|0|recorded", "1|1|not recorded: another tool has taken its place",
		"2|0|recorded", "2|1|not recorded: another tool has taken its place")
	expect(t, read, "SELECT count(*) FROM rtl_marker WHERE number = 3", "2")
}

// TestMarkerKernel: a kernel is in each range of its thread that was open when it was submitted.
func TestMarkerKernel(t *testing.T) {
	db, path := create(t)
	in := func(tid uint32, level int64, startNS, endNS uint64) Marker {
		return Marker{Form: Range, TID: tid, EndTID: tid, Level: level, StartNS: startNS, EndNS: endNS}
	}
	for pid := range uint32(2) {
		s := begin(t, db, 42+pid)
		must(t,
			s.Agent(tracedb.Agent{ID: 1}), s.Queue(tracedb.Queue{ID: 1, Agent: 1}), s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "k"}),
			s.Kind(5, func(w tracedb.KindWriter) error {
				return Store(w, []Marker{
					in(7, 1, 1100, 1200), in(7, 1, 1300, 1400), in(7, 0, 1000, 2000), in(8, 0, 1000, 3000),
					{Form: ProcessRange, TID: 7, EndTID: 7, Level: NoLevel, StartNS: 1000, EndNS: 3000},
					{Form: Range, TID: 7, Level: 0, StartNS: 2500, Missing: MissingEnd},
				})
			}))
		var kernels []tracedb.Dispatch
		for _, at := range []uint64{999, 1000, 1150, 1250, 1400, 2001, 2600} {
			kernels = append(kernels, tracedb.Dispatch{Queue: 1, Launch: 1, TID: 7, SubmitNS: at, StartNS: 5000, EndNS: 5001})
		}
		must(t, s.Dispatches(append(kernels, tracedb.Dispatch{Queue: 1, Launch: 1, TID: 9, SubmitNS: 1150, StartNS: 5000, EndNS: 5001})), s.End(tracedb.End{}))
	}
	must(t, db.Close())
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, `SELECT k.submit_ns, x.level, m.start_ns FROM marker_kernel x JOIN kernel k ON k.id = x.kernel_id JOIN marker m ON m.id = x.marker_id
		WHERE k.pid = 43 AND m.pid = 43 ORDER BY 1, 2`,
		"1000|0|1000", "1150|0|1000", "1150|1|1100", "1250|0|1000", "1400|0|1000", "1400|1|1300")
	expect(t, read, "SELECT count(*) FROM marker_kernel", "12")
}

// TestHostileView: whatever numbers a file has, a query of the view comes to its end.
func TestHostileView(t *testing.T) {
	db, path := create(t)
	must(t, begin(t, db, 42).End(tracedb.End{}), db.Close())
	change(t, path, `INSERT INTO rtl_marker VALUES(1, 1, 9, 9, 9, 9, 99, 9, 99, -9223372036854775808, 9223372036854775807),
		(2, 'x', x'01', 1e300, NULL, NULL, 'y', 'z', 'z', 'z', x'00')`)
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT count(*), count(start_s) FROM marker", "2|2")
	expect(t, read, "SELECT count(*) >= 0 FROM marker_kernel", "1")
}

// TestOlderTrace: a trace of an older version has no such tables.
func TestOlderTrace(t *testing.T) {
	db, path := create(t)
	must(t, db.Close())
	change(t, path, "DROP VIEW marker_kernel; DROP VIEW marker; DROP TABLE rtl_marker")
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

// A library that was loaded during a session is not said to be "not loaded", which another session may say of it.
func TestLateLibrary(t *testing.T) {
	db, path := create(t)
	for pid, ways := range [][]Libraries{{{NotLoaded, NotLoaded}, {Late, NotLoaded}}, {{NotLoaded, Recorded}}} {
		s := begin(t, db, uint32(42+pid))
		for _, l := range ways {
			must(t, s.Kind(0, func(w tracedb.KindWriter) error { return describe(w, l) }))
		}
		must(t, s.End(tracedb.End{Reason: "detached"}))
	}
	must(t, db.Close())
	tr, err := traceread.Open(t.Context(), path)
	must(t, err)
	defer tr.Close()
	var m Report
	must(t, m.readLibraries(&kind.Reading{Ctx: t.Context(), Trace: tr}))
	if want := []Library{
		{"libroctx64", "not loaded", 1},
		{"libroctx64", "not recorded: the process loaded it during the recording", 1},
		{"librocprofiler-sdk-roctx", "not loaded", 1},
		{"librocprofiler-sdk-roctx", "recorded", 1},
	}; !slices.Equal(m.Libraries, want) {
		t.Errorf("%+v", m.Libraries)
	}
}
