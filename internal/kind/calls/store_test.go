package calls

import (
	"database/sql"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// call returns a call of a function.
func call(t testing.TB, name string, tid uint32, fromNS, untilNS uint64) Call {
	return Call{StartNS: fromNS, EndNS: untilNS, TID: tid, Function: numberOf(t, name)}
}

// TestCallKernel: a kernel belongs to the call of each API on its thread in whose time it was submitted.
func TestCallKernel(t *testing.T) {
	db, path := create(t)
	for pid := range uint32(2) {
		s := begin(t, db, 42+pid)
		must(t,
			s.Agent(tracedb.Agent{ID: 1}), s.Queue(tracedb.Queue{ID: 1, Agent: 1}), s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "k"}),
			s.Kind(5, func(w tracedb.KindWriter) error {
				return Store(w, ring.KindHIPRuntimeAPI, []Call{
					call(t, "hipMalloc", 7, 10, 20), call(t, "hipLaunchKernel", 7, 100, 200), call(t, "hipLaunchKernel", 8, 150, 160),
					call(t, "hipLaunchKernel", 7, 300, 400), call(t, "hipLaunchKernel", 0, 100, 400),
				})
			}),
			s.Kind(1, func(w tracedb.KindWriter) error {
				return Store(w, ring.KindHSACoreAPI, []Call{call(t, "hsa_signal_store_relaxed", 7, 110, 190)})
			}),
			s.Kind(3, func(w tracedb.KindWriter) error { // the outermost one has the kernels
				return Store(w, ring.KindRCCLAPI, []Call{
					call(t, "ncclCommGetAsyncError", 8, 151, 152), call(t, "ncclCommGetAsyncError", 8, 153, 156), call(t, "ncclAllReduce", 8, 149, 158),
				})
			}))
		for _, d := range []tracedb.Dispatch{
			{TID: 7, SubmitNS: 5},
			{TID: 7, SubmitNS: 50},
			{TID: 7, SubmitNS: 100},
			{TID: 7, SubmitNS: 150},
			{TID: 7, SubmitNS: 200},
			{TID: 7, SubmitNS: 201},
			{TID: 8, SubmitNS: 155},
			{TID: 9, SubmitNS: 155},
			{SubmitNS: 155},
			{TID: 7},
		} {
			d.Queue, d.Launch, d.StartNS, d.EndNS = 1, 1, 500, 600
			must(t, s.Dispatches([]tracedb.Dispatch{d}))
		}
		must(t, s.Untimed(tracedb.Untimed{Queue: 1, Reason: 2, TID: 7, Packets: 3, SubmitNS: 160}), s.End(tracedb.End{}))
	}
	must(t, db.Close())
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, `SELECT c.pid, c.function, c.start_ns, k.submit_ns, k.thread FROM call_kernel x JOIN call c ON c.id = x.call_id
		JOIN kernel k ON k.id = x.kernel_id WHERE c.pid = k.pid ORDER BY c.id, k.id`,
		"42|hipLaunchKernel|100|100|7", "42|hipLaunchKernel|100|150|7", "42|hipLaunchKernel|100|200|7", "42|hipLaunchKernel|150|155|8",
		"42|hsa_signal_store_relaxed|110|150|7", "42|ncclAllReduce|149|155|8",
		"43|hipLaunchKernel|100|100|7", "43|hipLaunchKernel|100|150|7", "43|hipLaunchKernel|100|200|7", "43|hipLaunchKernel|150|155|8",
		"43|hsa_signal_store_relaxed|110|150|7", "43|ncclAllReduce|149|155|8")
	expect(t, read, "SELECT count(*) FROM call_kernel", "12")
	expect(t, read, `SELECT c.pid, c.function, x.submit_ns, k.submit_ns, x.untimed_id FROM call_submit x JOIN call c ON c.id = x.call_id
		LEFT JOIN kernel k ON k.id = x.kernel_id WHERE c.thread = 7 AND x.submit_ns BETWEEN 150 AND 170 ORDER BY c.id, 3`,
		"42|hipLaunchKernel|150|150|NULL", "42|hipLaunchKernel|160|NULL|1",
		"42|hsa_signal_store_relaxed|150|150|NULL", "42|hsa_signal_store_relaxed|160|NULL|1",
		"43|hipLaunchKernel|150|150|NULL", "43|hipLaunchKernel|160|NULL|2",
		"43|hsa_signal_store_relaxed|150|150|NULL", "43|hsa_signal_store_relaxed|160|NULL|2")
}

// TestHostileView: whatever numbers a file has, a query of a view comes to its end.
func TestHostileView(t *testing.T) {
	db, path := create(t)
	must(t, begin(t, db, 42).End(tracedb.End{}), db.Close())
	change(t, path, `INSERT INTO rtl_function VALUES(1, 1, 1, 1, 9, 9e18, 'z'), (2, 'x', x'01', 'z', 'y', -1, 0);
		INSERT INTO rtl_call VALUES(1, 1, 1, 1, 9223372036854775807, 9223372036854775807, -1, 99, zeroblob(1000)),
		(2, 'x', x'01', 1, -9223372036854775808, -9223372036854775808, 'y', 'z', 1e300);
		INSERT INTO rtl_context VALUES(1, 1, 1, 1, 1); INSERT INTO rtl_execution VALUES(1, 1, 1, -9223372036854775808, 1, 9223372036854775807)`)
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT count(*), count(start_s) FROM call", "2|2")
	for _, view := range []string{"call_kernel", "call_stream", "kernel_stream", "stream_dependency", "graph_replay", "graph_kernel"} {
		expect(t, read, "SELECT count(*) >= 0 FROM (SELECT * FROM "+view+" ORDER BY 1)", "1")
	}
}

// TestOlderTrace: a trace of an older version has no such tables.
func TestOlderTrace(t *testing.T) {
	db, path := create(t)
	must(t, db.Close())
	change(t, path, "DROP VIEW call_kernel; DROP VIEW call; DROP TABLE rtl_call")
	tr, err := traceread.Open(t.Context(), path)
	must(t, err)
	defer tr.Close()
	for _, k := range allKinds {
		if is, err := k.IsIn(tr); err != nil || is {
			t.Errorf("%s: %v, %v", k.ID, is, err)
		}
	}
}

// TestExtended: a further session of a trace has functions of its own.
func TestExtended(t *testing.T) {
	db, path := create(t)
	for pid := range uint32(2) {
		s := begin(t, db, 42+pid)
		must(t, s.Kind(1, func(w tracedb.KindWriter) error {
			return Store(w, ring.KindHIPRuntimeAPI, []Call{call(t, "hipMalloc", 7, 10, 20)})
		}), s.End(tracedb.End{}), db.Close())
		if pid == 0 {
			var err error
			db, err = tracedb.Make(tracedb.Place{Path: path, Extends: true})
			must(t, err)
		}
	}
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT pid, thread, thread_name, function, duration_ns, failed FROM call", "42|7|t7|hipMalloc|10|0", "43|7|t7|hipMalloc|10|0")
}

// BenchmarkStore is the recorder's part of a call, from the record to the file.
func BenchmarkStore(b *testing.B) {
	db, path := create(b)
	s := begin(b, db, 42)
	batch := make([]Call, batchCalls)
	for i := range batch {
		at := uint64(1_000_000_000_000 + i*1000)
		batch[i] = call(b, []string{"hipLaunchKernel", "hipGetDevice", "hipMalloc"}[i%3], uint32(i%4+1), at, at+500)
		batch[i].Registers = [6]uint64{0x7f0123456000, 64, 1, 256, 1, 0x7f0123456780}
		if i%3 == 0 {
			batch[i].StackWords = 2
		}
	}
	of := newStore(ring.KindHIPRuntimeAPI)
	b.ResetTimer()
	for n := 0; n < b.N; n += len(batch) {
		must(b, s.Kind(len(batch), func(w tracedb.KindWriter) error { return of.calls(w, batch) }))
	}
	must(b, s.End(tracedb.End{}))
	must(b, db.Close())
	info, err := os.Stat(path)
	must(b, err)
	b.ReportMetric(float64(info.Size())/float64(b.N), "bytes/call")
}

// change runs SQL in a file as its owner can.
func change(t testing.TB, path, statements string) {
	t.Helper()
	raw, err := sql.Open("sqlite3", path)
	must(t, err)
	_, err = raw.Exec(statements)
	must(t, err, raw.Close())
}

func expect(t testing.TB, db *sql.DB, query string, want ...string) {
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
			values[i].String, into[i] = "", &values[i]
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
