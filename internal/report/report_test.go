package report

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/copies"
	"github.com/rtl-attach/rtl-attach/internal/ranks"
	"github.com/rtl-attach/rtl-attach/internal/steps"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/test/tracetest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// create makes a trace that sessions can be written to.
func create(t testing.TB) (*tracedb.DB, string) {
	t.Helper()
	place, err := tracedb.Check(filepath.Join(t.TempDir(), "t.db"), 1)
	must(t, err)
	db, err := tracedb.Create(place)
	must(t, err)
	return db, place.Path
}

func begin(t testing.TB, db *tracedb.DB, pid uint32, command string) *tracedb.Session {
	t.Helper()
	s, err := db.Begin(tracedb.SessionInfo{PID: pid, Command: command, Host: "node", Generation: 1})
	must(t, err)
	must(t, s.Agent(tracedb.Agent{ID: 1, Name: "gfx942", BDF: 0x300}), s.Queue(tracedb.Queue{ID: 1, Agent: 1, HSAID: 3}),
		s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "_Z4gemmILi1EEvPf.kd"}), s.Launch(tracedb.Launch{ID: 2, Agent: 1, Symbol: "_Z4gemmILi2EEvPf.kd"}),
		s.Launch(tracedb.Launch{ID: 3, Agent: 1, Symbol: "=copy\x1b[2J"}))
	return s
}

// causesTrace has a gap of each kind, on one GPU of two processes: recorded from
// 1,000 to 11,000, and from 9,000 to 20,000, in the last kernel.
func causesTrace(t testing.TB) string {
	t.Helper()
	db, path := create(t)
	s := begin(t, db, 41220, "server")
	must(t,
		s.Window(tracedb.Window{Queue: 1, OpenNS: 1000, Closed: true, CloseNS: 11000, EndIndex: 12, Dispatches: 7}),
		s.Dispatches([]tracedb.Dispatch{
			{Queue: 1, Launch: 1, TID: 7, Index: 0, StartNS: 2000, EndNS: 2500, SubmitNS: 1500}, // the edge: 1,000
			{Queue: 1, Launch: 1, TID: 7, Index: 1, StartNS: 3000, EndNS: 3500, SubmitNS: 2400}, // launch: 500
			{Queue: 1, Launch: 2, TID: 7, Index: 2, StartNS: 5000, EndNS: 5500, SubmitNS: 4600}, // host: 1,100, launch: 400
			{Queue: 1, Launch: 2, TID: 8, Index: 5, StartNS: 5800, EndNS: 6000, SubmitNS: 4600}, // dependency: 300
			{Queue: 1, Launch: 3, TID: 8, Index: 8, StartNS: 6600, EndNS: 6700, SubmitNS: 4600}, // behind packet 6, without times: 600
			{Queue: 1, Launch: 1, Index: 9, StartNS: 7000, EndNS: 7500},                         // no submit: 300
			{Queue: 1, Launch: 1, TID: 7, Index: 10, StartNS: 7200, EndNS: 7400, SubmitNS: 7100},
		}),
		s.Untimed(tracedb.Untimed{Queue: 1, Reason: 2, Index: 6, Packets: 1}),
		s.Counters([]tracedb.Counter{{Name: tracedb.CounterQueuesSeen, Value: 1}}),
		s.End(tracedb.End{Reason: "detached", ArmedNS: 1000, DetachedNS: 11000, Coverage: []tracedb.Coverage{
			{Queue: 1, Windows: 1, Dispatches: 8, Timed: 7, Untimed: 1},
		}}))
	s = begin(t, db, 41377, "worker")
	must(t,
		s.Window(tracedb.Window{Queue: 1, OpenNS: 9000, Closed: true, CloseNS: 20000, EndIndex: 1, Dispatches: 1}),
		s.Dispatches([]tracedb.Dispatch{{Queue: 1, Launch: 1, TID: 9, StartNS: 18000, EndNS: 20500, SubmitNS: 17000}}), // host: 9,500, launch: 1,000
		s.End(tracedb.End{Reason: "detached", ArmedNS: 9000, DetachedNS: 20000, Coverage: []tracedb.Coverage{{Queue: 1, Windows: 1, Dispatches: 1, Timed: 1}}}),
		db.Close())
	return path
}

func TestCauses(t *testing.T) {
	r, err := Make(causesTrace(t), Options{})
	must(t, err)
	g := r.GPUs[0]
	if g.BusyNS != 4300 || g.RecordedNS != 19000 || g.IdleNS != 14700 || g.GapsInAll != 6 || g.LongestGapNS != 10500 {
		t.Errorf("%+v", g)
	}
	got := map[string]Cause{}
	for _, c := range g.Gaps {
		got[c.Name] = c
	}
	for name, want := range map[string][3]int64{ // gaps, total, longest
		"host": {2, 10600, 9500}, "launch": {3, 1900, 1000}, "dependency": {1, 300, 300}, "unknown": {2, 900, 600}, "edge": {0, 1000, 0},
	} {
		if c := got[name]; [3]int64{c.Gaps, c.TotalNS, c.LongestNS} != want {
			t.Errorf("%s: %+v, want %v", name, c, want)
		}
	}
	first := r.LongestGaps[0]
	if first.LengthNS != 10500 || first.Cause != "host" || first.HostNS != 9500 || first.TID != 9 || first.Next != "void gemm<1>(float*)" || first.Queue != 2 {
		t.Errorf("%+v", first)
	}
	if q := r.Queues[0]; q.BusyNS != 2300 || q.RecordedNS != 10000 || q.Coverage != (Seen{8, 7, false, 0}) {
		t.Errorf("%+v", q)
	}
	if q := r.Queues[1]; q.BusyNS != 2000 || q.RecordedNS != 11000 || q.Coverage != (Seen{1, 1, true, 0}) {
		t.Errorf("%+v", q)
	}
}

// A window cuts busy and idle times, and counts the kernels that start in it.
func TestWindow(t *testing.T) {
	r, err := Make(causesTrace(t), Options{Window: &Span{FromNS: 2200, UntilNS: 4700}}) // 3,200 to 5,700
	must(t, err)
	g := r.GPUs[0]
	if g.BusyNS != 800 || g.IdleNS != 1700 || g.Dispatches != 1 || r.LaunchToStart.Dispatches != 1 || r.Kernels[0].TotalNS != 500 {
		t.Errorf("%+v %+v", g, r.Kernels)
	}
	for _, c := range g.Gaps {
		if want := map[string]int64{"host": 1100, "launch": 400, "dependency": 200}[c.Name]; c.TotalNS != want {
			t.Errorf("%+v", c)
		}
	}
	if r, err = Make(causesTrace(t), Options{Window: &Span{FromNS: 1 << 61}}); err != nil || r.Dispatched() != 0 || r.GPUs[0].RecordedNS != 0 {
		t.Errorf("beyond the end: %+v, %v", r.GPUs, err)
	}
}

// What lies between two sessions was not recorded, and is no gap.
func TestBetweenSessions(t *testing.T) {
	db, path := create(t)
	for i, pid := range []uint32{41220, 41220, 41377} {
		s, at := begin(t, db, pid, "server"), uint64(10_000*(i+1))
		must(t, s.Dispatches([]tracedb.Dispatch{
			{Queue: 1, Launch: 1, StartNS: at + 100, EndNS: at + 200, SubmitNS: at},
			{Queue: 1, Launch: 1, Index: 1, StartNS: at + 300, EndNS: at + 400, SubmitNS: at},
		}), s.End(tracedb.End{ArmedNS: at, DetachedNS: at + 1000}))
	}
	must(t, db.Close())
	r, err := Make(path, Options{})
	must(t, err)
	g := r.GPUs[0]
	if g.RecordedNS != 3000 || g.BusyNS != 600 || g.LongestGapNS != 700 {
		t.Errorf("%+v", g)
	}
	if len(r.PerProcess) != 2 || r.PerProcess[0].Sessions != 2 || r.PerProcess[0].RecordedNS != 2000 || r.PerProcess[1].RecordedNS != 1000 {
		t.Errorf("%+v", r.PerProcess)
	}
}

// Of a session that was cut off only its kernels tell when it recorded.
func TestBetweenCutOffSessions(t *testing.T) {
	db, path := create(t)
	first, second := begin(t, db, 41220, "server"), begin(t, db, 41377, "worker")
	must(t,
		first.Dispatches([]tracedb.Dispatch{{Queue: 1, Launch: 1, StartNS: 100, EndNS: 200, SubmitNS: 50}}),
		second.Dispatches([]tracedb.Dispatch{{Queue: 1, Launch: 1, StartNS: 300, EndNS: 400, SubmitNS: 50}}),
		first.Dispatches([]tracedb.Dispatch{{Queue: 1, Launch: 1, Index: 1, StartNS: 600, EndNS: 700, SubmitNS: 550}}),
		db.Close())
	r, err := Make(path, Options{})
	must(t, err)
	got := map[string]int64{}
	for _, c := range r.GPUs[0].Gaps {
		got[c.Name] = c.TotalNS
	}
	// That the first session went on at 200 is known too late for a cause.
	if g := r.GPUs[0]; g.RecordedNS != 600 || g.BusyNS != 300 || got["host"] != 150 || got["launch"] != 50 || got["edge"] != 100 {
		t.Errorf("%+v", g)
	}
}

// A kernel that comes later than any order can wait for makes SQLite sort.
func TestVeryLateKernel(t *testing.T) {
	db, path := create(t)
	s := begin(t, db, 41220, "server")
	const n = orderRoom + 10
	batch := make([]tracedb.Dispatch, 0, n+1)
	for i := range uint64(n) {
		batch = append(batch, tracedb.Dispatch{Queue: 1, Launch: 1, Index: i + 1, StartNS: 10_000 + 100*i, EndNS: 10_050 + 100*i})
	}
	must(t, s.Queue(tracedb.Queue{ID: 2, Agent: 1}))
	batch = append(batch, tracedb.Dispatch{Queue: 2, Launch: 2, StartNS: 9_000, EndNS: 10_000 + 100*n/2})
	must(t, s.Dispatches(batch), s.End(tracedb.End{ArmedNS: 9_000, DetachedNS: 10_000 + 100*n}), db.Close())
	read, err := traceread.Open(t.Context(), path)
	must(t, err)
	defer read.Close()
	if _, err := analyseRows(read, wholeTime, nil, recordedOrder, ""); !errors.Is(err, errDisorder) {
		t.Fatalf("it was not noticed: %v", err)
	}
	r, err := Make(path, Options{})
	must(t, err)
	const want = 1000 + 100*n/2 + 50*n/2
	if g := r.GPUs[0]; g.BusyNS != want || g.Dispatches != n+1 || g.GapsInAll != n/2-1 {
		t.Errorf("%+v, want %d", g, want)
	}
}

func TestReportForms(t *testing.T) {
	for name, path := range map[string]string{"causes": causesTrace(t), "gaps": traceOf(t, gaps), "whole": traceOf(t, whole), "copies": traceOf(t, withCopies), "calls": traceOf(t, withCalls), "allocations": traceOf(t, withAllocations), "markers": traceOf(t, withMarkers), "threads": tracetest.WriteThreads(t)} {
		o := Options{Kernels: 3}
		if name == "threads" {
			o.Gaps = 2
		}
		r, err := Make(path, o)
		must(t, err)
		r.File, r.SizeBytes = "trace-41220-1203.db", 131_000_000 // a temporary folder, and pages
		for i := range r.Sessions {
			r.Sessions[i].BegunNS = second // the clock of this run
		}
		var text, full, object bytes.Buffer
		must(t, r.WriteText(&text, false), r.WriteText(&full, true), r.WriteJSON(&object))
		golden(t, name+"-report.txt", text.Bytes())
		golden(t, name+"-report.json", object.Bytes())
		if !strings.Contains(full.String(), "gemm<2>(float*)") && name == "causes" {
			t.Errorf("no full name:\n%s", full.Bytes())
		}
		must(t, r.WriteText(&harmlessWriter{t}, true))
	}
}

func timedCopies(r *Report) int64 { return r.Kinds[copies.Kind.ID.String()].(*copies.Report).Timed }

func isOfKind(table string) bool {
	return slices.ContainsFunc(kindTables(), func(t Table) bool { return t.Name == table })
}

func isOfThreads(table string) bool { return table == "why-idle" || table == "gap-causes" }

// Every table has as many cells in each row as in its first, and numbers that are numbers.
func TestTables(t *testing.T) {
	r, err := Make(causesTrace(t), Options{})
	must(t, err)
	r.Steps = []Steps{{Kinds: []StepsKind{{First: "k", Outliers: []StepsOne{{Number: 7}, {Number: 8, Differences: []StepDifference{{What: steps.Idle}}}}}}}}
	r.Ranks = &ranks.Result{
		Ranks: []ranks.RankResult{{}, {Instead: []ranks.Instead{{What: "idle"}}}}, GPUs: []ranks.GPUResult{{}},
		Groups: []ranks.GroupResult{{Ranks: []int{0, 1}, Sums: []ranks.Sum{{Last: -1}, {Last: 1}}}},
	}
	for _, table := range Tables {
		var b bytes.Buffer
		must(t, r.WriteCSV(&b, table), r.WriteCSV(&harmlessWriter{t}, table))
		rows, err := csv.NewReader(&b).ReadAll()                                                // refuses rows of different lengths
		if err != nil || (len(rows) < 2) != (isOfKind(table.Name) || isOfThreads(table.Name)) { // none are in this trace
			t.Errorf("%s: %v, %v", table.Name, rows, err)
		}
	}
	copied, err := Make(traceOf(t, withCopies), Options{})
	must(t, err)
	var b, rates bytes.Buffer
	table, _ := TableNamed("copies")
	must(t, copied.WriteCSV(&rates, table))
	const want = "direction,copies,bytes,total_ns,bytes_per_second\nhost to device,10,500000,20000,25000000000\n"
	if !strings.HasPrefix(rates.String(), want) {
		t.Errorf("%s, want %s", rates.Bytes(), want)
	}
	late, err := Make(traceOf(t, withCopies), Options{Window: &Span{FromNS: 1 << 40}})
	must(t, err)
	if copied.OfKinds() != 20 || late.OfKinds() != 0 || timedCopies(late) != timedCopies(copied) {
		t.Errorf("%d copies, %d after their end", copied.OfKinds(), late.OfKinds())
	}
	table, _ = TableNamed("kernels")
	must(t, r.WriteCSV(&b, table))
	if !strings.Contains(b.String(), `'=copy\x1b[2J`) {
		t.Errorf("a formula, or a control character:\n%s", b.Bytes())
	}
}

func TestBaseNames(t *testing.T) {
	for name, want := range map[string]string{
		"void gemm<1>(float*)": "gemm",
		"void at::native::(anonymous namespace)::fill<4, F<int>>(int, F<int>)": "at::native::(anonymous namespace)::fill",
		"Cijk_Ailk_MT128":                "Cijk_Ailk_MT128",
		"a::operator<(int)":              "a::operator<",
		"broken<1":                       "broken<1",
		"broken>1":                       "broken>1",
		"<1>":                            "<1>",
		"run<(lambda)#1>::run()":         "run::run",
		"":                               "",
		"wide<char const*, 2>::k<3>(x<)": "wide::k",
	} {
		if got := base(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// A file that is cut short anywhere is refused, or read as far as its tables go.
func TestTruncated(t *testing.T) {
	whole, err := os.ReadFile(causesTrace(t))
	must(t, err)
	path := filepath.Join(t.TempDir(), "cut.db")
	const page = 16384
	refused := 0
	for size := 0; size < len(whole); size += 4096 {
		must(t, os.WriteFile(path, whole[:size], 0o600))
		if _, err := Make(path, Options{}); err == nil && size <= len(whole)-page {
			t.Errorf("%d of %d bytes are a trace", size, len(whole))
		} else if err == nil {
			continue // what is missing of the last page is no row
		} else if errors.Is(err, traceread.ErrImpossible) || errors.Is(err, tracedb.ErrNotTrace) {
			refused++
		} else {
			t.Errorf("%d bytes: no known cause: %v", size, err)
		}
	}
	if refused == 0 {
		t.Error("nothing was tried")
	}
}

// Times that cannot be, and references to nothing, are left out and counted.
func TestLeftOut(t *testing.T) {
	for i, statement := range []string{
		"UPDATE rtl_execution SET duration_ns = -1 WHERE id = 1",
		"UPDATE rtl_execution SET start_ns = -5 WHERE id = 1",
		"UPDATE rtl_execution SET duration_ns = 9223372036854775807 WHERE id = 1",
		"UPDATE rtl_execution SET context_id = 99999999 WHERE id = 1",
		"UPDATE rtl_execution SET context_id = -9223372036854775807 WHERE id = 1",
		"UPDATE rtl_context SET queue_id = 77 WHERE id = (SELECT context_id FROM rtl_execution WHERE id = 1)",
	} {
		path := smallTrace(t)
		change(t, path, statement)
		r, err := Make(path, Options{})
		must(t, err)
		want := int64(1)
		if i == 5 {
			want = 2 // both have that context
		}
		if r.LeftOut != want || r.Dispatched() != 2-want {
			t.Errorf("%s: %d left out, %d not", statement, r.LeftOut, r.Dispatched())
		}
	}
	path := smallTrace(t)
	change(t, path, "UPDATE rtl_execution SET start_ns = 'x' WHERE id = 1")
	if _, err := Make(path, Options{}); !errors.Is(err, traceread.ErrImpossible) {
		t.Errorf("a text for a time: %v", err)
	}
}

// Names that are too many to be held are one group, and the sums stay right.
func TestGroupsOfManyNames(t *testing.T) {
	path := smallTrace(t)
	change(t, path, fmt.Sprintf(`WITH RECURSIVE n(x) AS (SELECT 100 UNION ALL SELECT x + 1 FROM n LIMIT 600)
		INSERT INTO rocpd_string SELECT x, x || hex(zeroblob(%d)) FROM n;
		INSERT INTO rtl_launch SELECT id, 1, 1, id, id, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM rocpd_string WHERE id >= 100;
		INSERT INTO rtl_context SELECT id, 1, id, NULL, 0 FROM rocpd_string WHERE id >= 100;
		INSERT INTO rtl_execution SELECT id, id, id, 2000, 10, NULL FROM rocpd_string WHERE id >= 100`, traceread.LongestName/2))
	r, err := Make(path, Options{})
	must(t, err)
	var calls, variants int64
	for _, g := range r.Groups {
		calls += g.Calls
		variants += g.Variants
	}
	if calls != 602 || variants != 601 || r.GroupsInAll >= 601 || r.Groups[0].Name == "" {
		t.Errorf("%d calls, %d variants, %d groups", calls, variants, r.GroupsInAll)
	}
}

// Where a copy ran on the GPU, or from or to it, the gap is the copy's. Copies may overlap.
func TestCopiesInGaps(t *testing.T) {
	path := causesTrace(t)
	change(t, path, `CREATE TABLE IF NOT EXISTS rtl_copy(id INTEGER PRIMARY KEY, session_id INTEGER, thread_id INTEGER, from_agent_id INTEGER,
			to_agent_id INTEGER, direction INTEGER, bytes INTEGER, reason_id INTEGER, submit_ns INTEGER, start_ns INTEGER, duration_ns INTEGER);
		INSERT INTO rtl_copy(session_id, from_agent_id, to_agent_id, direction, bytes, reason_id, start_ns, duration_ns) VALUES
			(1, NULL, 1, 1, 64, 0, 3600, 200), (1, NULL, 1, 1, 64, 0, 3700, 1000),
			(1, 1, NULL, 2, 64, 0, 5400, 150), (1, 1, 1, 3, 64, 0, 6500, 10), (1, NULL, NULL, 0, 64, 0, 7500, 500), (1, 1, NULL, 2, 64, 3, NULL, NULL)`)
	r, err := Make(path, Options{})
	must(t, err)
	got := map[string]int64{}
	for _, c := range r.GPUs[0].Gaps {
		got[c.Name] = c.TotalNS
	}
	// 3,600 to 4,700 of which 1,000 before the submit, 5,500 to 5,550, 6,500 to 6,510
	for name, want := range map[string]int64{"copy": 1160, "host": 10600 - 1000, "launch": 1900 - 100, "dependency": 300 - 50, "unknown": 900 - 10, "edge": 1000} {
		if got[name] != want {
			t.Errorf("%s: %d, want %d", name, got[name], want)
		}
	}
}

// A GPU is busy for at least so long where something of it may be missing, and
// the figures of one without are exact.
func TestAtLeast(t *testing.T) {
	for statement, want := range map[string][]bool{
		"SELECT 1": {false, false},
		"INSERT INTO rtl_loss(session_id, cause, records) VALUES (2, 'x', 1)":        {false, true},
		"UPDATE rtl_coverage SET dispatches = 9, unexplained = 6 WHERE queue_id = 1": {true, false},
	} {
		path := serverTrace(t)
		change(t, path, statement)
		r, err := Make(path, Options{})
		must(t, err)
		for i, g := range r.GPUs {
			if g.AtLeast != want[i] || g.Coverage.Complete == want[i] {
				t.Errorf("%q: GPU %d: at least %v, %+v", statement, i, g.AtLeast, g.Coverage)
			}
		}
	}
}

// Where records were lost kernels may have run: nobody knows what such a gap was.
func TestLossesInGaps(t *testing.T) {
	path := causesTrace(t)
	change(t, path, `INSERT INTO rtl_loss(session_id, cause, records, from_ns, until_ns) VALUES (1, 'x', 5, 4000, 4500), (9, 'x', 9, 6000, 7000)`)
	wantCauses(t, path, map[string]int64{"host": 9500, "launch": 1500, "dependency": 300, "unknown": 900 + 1500, "edge": 1000})
	change(t, path, "INSERT INTO rtl_loss(session_id, cause, records) VALUES (1, 'x', 1)") // when in its session, is not known
	wantCauses(t, path, map[string]int64{"unknown": 13700, "edge": 1000})
}

// wantCauses compares what the idle time of the first GPU is put down to.
func wantCauses(t *testing.T, path string, want map[string]int64) {
	t.Helper()
	r, err := Make(path, Options{})
	must(t, err)
	got := map[string]int64{}
	for _, c := range r.GPUs[0].Gaps {
		got[c.Name] = c.TotalNS
	}
	if !maps.Equal(got, want) {
		t.Errorf("idle by cause: %v, want %v", got, want)
	}
}
