package report

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

var wholeTime = windows{window: traceread.Always, counted: traceread.Always}

// A span is a time in ns. The sums by brute force share no arithmetic with the report.
type span struct{ beginNS, endNS int64 }

const latest = traceread.LatestNS

var always = span{0, latest}

// A fact is a dispatch as the trace's own tables have it.
type fact struct {
	gpu, queue, session, start, end, packet int64
	submit                                  int64 // tracedb.Null: not known
	name                                    string
}

// facts reads them with a query that shares nothing with the report's.
func facts(t testing.TB, path string) (all []fact) {
	t.Helper()
	db, err := tracedb.Open(path)
	must(t, err)
	defer db.Close()
	rows, err := db.Query(`SELECT a.gpu_id, q.id, q.session_id, d.start_ns, d.start_ns + d.duration_ns, d.packet_index,
			coalesce(d.start_ns - d.queued_ns, ?), n.string
		FROM rtl_dispatch d JOIN rtl_queue q ON q.id = d.queue_id JOIN rtl_agent a ON a.id = q.agent_id
		JOIN rtl_launch l ON l.id = d.launch_id JOIN rocpd_string n ON n.id = l.name_id WHERE d.duration_ns >= 0`, tracedb.Null)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var f fact
		must(t, rows.Scan(&f.gpu, &f.queue, &f.session, &f.start, &f.end, &f.packet, &f.submit, &f.name))
		all = append(all, f)
	}
	must(t, rows.Err())
	return all
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// inAnyOf adds up the stretches of a window that lie in one of some spans, by
// looking at each stretch between two of all their ends.
func inAnyOf(spans []span, window span) (ns int64) {
	marks := []int64{window.beginNS, window.endNS}
	for _, s := range spans {
		marks = append(marks, s.beginNS, s.endNS)
	}
	slices.Sort(marks)
	for i := 1; i < len(marks); i++ {
		from, until := max(marks[i-1], window.beginNS), min(marks[i], window.endNS)
		if from < until && slices.ContainsFunc(spans, func(s span) bool { return s.beginNS <= from && until <= s.endNS }) {
			ns += until - from
		}
	}
	return ns
}

func spansOf(all []fact, of func(fact) bool) (spans []span) {
	for _, f := range all {
		if of(f) {
			spans = append(spans, span{f.start, f.end})
		}
	}
	return spans
}

// hides: something of that queue may have run in a time, before the first kernel of it that is known.
func (b backlog) hides(all []fact, queue int64, s span) bool {
	earlier := func(f fact) bool { return f.queue == queue && f.start < s.endNS }
	return b.window.beginNS < s.endNS && s.beginNS < b.window.endNS && !slices.ContainsFunc(all, earlier)
}

// hiddenEdge is what may be hidden of a GPU's time before its first kernel, and after its last.
func (sc scene) hiddenEdge(all []fact, gpu int64, stays []span, window span) int64 {
	marks := []int64{0, latest}
	for _, f := range all {
		marks = append(marks, f.start, f.end)
	}
	for _, b := range sc.backlogs {
		marks = append(marks, b.window.beginNS, b.window.endNS)
	}
	slices.Sort(marks)
	var dark []span
	for i := 1; i < len(marks); i++ {
		s := span{marks[i-1], marks[i]}
		before := slices.ContainsFunc(all, func(f fact) bool { return f.start <= s.beginNS })
		after := slices.ContainsFunc(all, func(f fact) bool { return f.end >= s.endNS })
		if s.beginNS == s.endNS || before && after {
			continue
		}
		for queue, b := range sc.backlogs {
			if b.gpu == gpu && b.hides(all, queue, s) {
				dark = append(dark, s)
			}
		}
	}
	var seen []span
	for _, s := range stays {
		seen = append(seen, clip(dark, s.beginNS, s.endNS)...)
	}
	return inAnyOf(seen, window)
}

// want are the parts of a report that are checked by brute force.
type want struct {
	busy, recorded map[int64]int64 // by GPU
	causes         map[int64]map[string]int64
}

func (sc scene) bruteForce(all []fact, window span) want {
	w := want{busy: map[int64]int64{}, recorded: map[int64]int64{}, causes: map[int64]map[string]int64{}}
	for gpu := range int64(2) {
		mine := spansOf(all, func(f fact) bool { return f.gpu == gpu })
		var stays, busy []span
		for _, armed := range sc.armed {
			stays, busy = append(stays, armed), append(busy, clip(mine, armed.beginNS, armed.endNS)...)
		}
		w.busy[gpu], w.recorded[gpu] = inAnyOf(busy, window), inAnyOf(stays, window)
		own := slices.DeleteFunc(slices.Clone(all), func(f fact) bool { return f.gpu != gpu })
		w.causes[gpu] = sc.causes(own, gpu, stays, window)
		edge := w.recorded[gpu] - w.busy[gpu]
		for _, ns := range w.causes[gpu] {
			edge -= ns
		}
		if dark := sc.hiddenEdge(own, gpu, stays, window); dark > 0 {
			w.causes[gpu]["backlog"] += dark
			edge -= dark
		}
		if edge > 0 {
			w.causes[gpu]["edge"] = edge
		}
	}
	return w
}

// causes looks at every kernel of a GPU, and at all others for what ran before it.
func (sc scene) causes(all []fact, gpu int64, stays []span, window span) map[string]int64 {
	causes := map[string]int64{}
	add := func(cause string, from, until int64) {
		from, until = max(from, window.beginNS), min(until, window.endNS)
		if ns := inAnyOf(clip(stays, from, until), span{from, until}); from < until && ns > 0 {
			causes[cause] += ns
		}
	}
	for _, f := range all {
		reached, packet, some := int64(0), int64(0), false
		for _, g := range all {
			if g.start < f.start {
				reached, some = max(reached, g.end), true
				if g.queue == f.queue {
					packet = max(packet, g.packet)
				}
			}
		}
		if !some || reached >= f.start {
			continue
		}
		hidden := false
		for queue, b := range sc.backlogs {
			hidden = hidden || b.gpu == gpu && b.hides(all, queue, span{reached, f.start})
		}
		if hidden {
			add("backlog", reached, f.start)
			continue
		}
		if f.submit == tracedb.Null {
			add("unknown", reached, f.start)
			continue
		}
		submit := max(reached, min(f.submit, f.start))
		behind := "launch"
		if f.packet > packet+1 {
			behind = "dependency"
			for p := packet + 1; p < f.packet; p++ {
				if sc.untimed[f.queue][p] {
					behind = "unknown"
				}
			}
		}
		if behind == "unknown" {
			submit = reached
		}
		add("host", reached, submit)
		add(behind, submit, f.start)
	}
	return causes
}

func clip(spans []span, from, until int64) (out []span) {
	for _, s := range spans {
		if s = (span{max(s.beginNS, from), min(s.endNS, until)}); s.beginNS < s.endNS {
			out = append(out, s)
		}
	}
	return out
}

// TestReportAgainstBruteForce compares with sums over all pairs of kernels and
// over all stretches between their ends, with and without a window.
func TestReportAgainstBruteForce(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 1))
		sc := invent(t, random, 60)
		all := facts(t, sc.path)
		for _, o := range []Options{
			{},
			{Window: &Span{FromNS: random.Int64N(sc.length), UntilNS: sc.length + random.Int64N(sc.length)}},
			{Window: &Span{FromNS: random.Int64N(sc.length / 2)}},
		} {
			r, err := Make(sc.path, o)
			must(t, err)
			window := always
			if r.Window != nil {
				window = span{r.Window.BeginNS, r.Window.EndNS}
			}
			w := sc.bruteForce(all, window)
			for _, g := range r.GPUs {
				causes := map[string]int64{}
				for _, c := range g.Gaps {
					causes[c.Name], seen[c.Name] = c.TotalNS, true
				}
				if g.BusyNS != w.busy[g.ID] || g.RecordedNS != w.recorded[g.ID] || !reflect.DeepEqual(causes, w.causes[g.ID]) {
					t.Errorf("seed %d, %+v, GPU %d: busy %d of %d, %v\nwant %d of %d, %v", seed, o.Window, g.ID,
						g.BusyNS, g.RecordedNS, causes, w.busy[g.ID], w.recorded[g.ID], w.causes[g.ID])
				}
			}
			checkQueues(t, r, sc, all, window)
			checkKernels(t, r, all, window)
			checkLatency(t, r, all, window)
		}
	}
	for _, name := range []string{"host", "launch", "dependency", "unknown", "backlog", "edge"} {
		if !seen[name] {
			t.Errorf("no gap is due to %s: the test reaches less than it should", name)
		}
	}
}

func checkQueues(t *testing.T, r *Report, sc scene, all []fact, window span) {
	t.Helper()
	for _, q := range r.Queues {
		armed := sc.armed[q.Session]
		of := spansOf(all, func(f fact) bool { return f.queue == q.ID })
		if busy := inAnyOf(clip(of, armed.beginNS, armed.endNS), window); q.BusyNS != busy || q.RecordedNS < busy {
			t.Errorf("queue %d: busy %d of %d, want %d", q.ID, q.BusyNS, q.RecordedNS, busy)
		}
	}
	for _, p := range r.PerProcess {
		var busy int64
		for _, gpu := range p.GPUs {
			mine := spansOf(all, func(f fact) bool { return f.gpu == gpu && (f.session == 2) == (p.PID == 41) })
			var declared []span
			for session, armed := range sc.armed {
				if (session == 2) == (p.PID == 41) {
					declared = append(declared, clip(mine, armed.beginNS, armed.endNS)...)
				}
			}
			busy += inAnyOf(declared, window)
		}
		if p.BusyNS != busy {
			t.Errorf("pid %d: busy %d, want %d", p.PID, p.BusyNS, busy)
		}
	}
}

func checkKernels(t *testing.T, r *Report, all []fact, window span) {
	t.Helper()
	calls, total := map[string]int64{}, map[string]int64{}
	var allCalls, allNS int64
	for _, f := range all {
		if f.start >= window.beginNS && f.start < window.endNS {
			calls[f.name]++
			total[f.name] += f.end - f.start
			allCalls++
			allNS += f.end - f.start
		}
	}
	for _, k := range r.Kernels {
		if k.Calls != calls[k.Name] || k.TotalNS != total[k.Name] {
			t.Errorf("%s: %+v, want %d calls, %d ns", k.Name, k, calls[k.Name], total[k.Name])
		}
	}
	if len(r.Kernels) != len(calls) {
		t.Errorf("%d kernels, want %d", len(r.Kernels), len(calls))
	}
	if g := r.Groups; allCalls > 0 && (len(g) != 1 || g[0].Name != "gemm" || g[0].Calls != allCalls || g[0].TotalNS != allNS || g[0].Variants != int64(len(calls))) {
		t.Errorf("groups %+v, want %d calls, %d ns in one", g, allCalls, allNS)
	}
}

// checkLatency compares with the value at its rank of all, sorted.
func checkLatency(t *testing.T, r *Report, all []fact, window span) {
	t.Helper()
	var sorted []int64
	for _, f := range all {
		if f.submit != tracedb.Null && f.start >= window.beginNS && f.start < window.endNS {
			sorted = append(sorted, max(0, f.start-f.submit))
		}
	}
	slices.SortFunc(sorted, cmp.Compare)
	l := r.LaunchToStart
	if len(sorted) == 0 {
		return
	}
	for permille, got := range map[int]int64{500: l.P50NS, 900: l.P90NS, 990: l.P99NS, 999: l.P999NS, 1000: l.MaxNS} {
		exact := sorted[(len(sorted)*permille+999)/1000-1]
		if off := got - exact; off > exact/256+1 || off < -exact/256-1 {
			t.Errorf("%d of 1000: %d ns, exactly %d", permille, got, exact)
		}
	}
}

// Rows in the order of their ends and rows that SQLite has sorted say the same.
func TestBothOrdersAgree(t *testing.T) {
	for seed := range uint64(5) {
		sc := invent(t, rand.New(rand.NewPCG(seed, 2)), 200)
		tr, err := traceread.Open(t.Context(), sc.path)
		must(t, err)
		defer tr.Close()
		var told []*Report
		for _, source := range []rowSource{recordedOrder, startOrder} {
			a, err := analyseRows(tr, wholeTime, nil, source, "")
			must(t, err)
			r := &Report{}
			r.fillGPUs(a)
			r.fillQueues(a)
			r.fillPerProcess(a)
			must(t, r.fillLongest(tr, a))
			told = append(told, r)
		}
		if !reflect.DeepEqual(told[0], told[1]) {
			t.Errorf("seed %d: %+v\n%+v", seed, told[0], told[1])
		}
	}
}
