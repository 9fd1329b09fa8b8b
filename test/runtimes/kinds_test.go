package runtimes

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

// A scene is a program whose items of some kinds are recorded.
type scene struct {
	name     string
	workload func(t *testing.T) harness.Workload
	flags    []string
	items    int // that the program counts while it is recorded, at least
	compare  func(t *testing.T, p *harness.Process, got bool, runs ...harness.Run) []kindRow
	late     *lateLibrary // nil: the kinds are not those of a library that programs load
}

// lateLibrary is how a program loads the library after the first attach.
type lateLibrary struct {
	args           []string
	unload, loaded string // requests; unload "": it is not loaded from the beginning
}

func scenes() []scene {
	plain := func(w harness.Workload) func(*testing.T) harness.Workload {
		return func(*testing.T) harness.Workload { return w }
	}
	return []scene{
		{"calls", plain(harness.HIPCalls("--pace", "1000")), []string{"--hip-trace", "--hsa-trace", "--hsa-signal-trace"}, 15000, compareCalls, nil},
		{"copies", plain(harness.Copier()), []string{"--memory-copy-trace", "--set", "RTL_DRAIN_TIMEOUT_MS=8000"}, 2000, compareCopies, nil},
		{"allocations", plain(harness.Allocator()), []string{"--memory-allocation-trace"}, 2000, compareAllocations, nil},
		{"scratch", plain(harness.ScratchRequester()), []string{"--scratch-memory-trace"}, 200, compareScratch, nil},
		{
			"markers", func(t *testing.T) harness.Workload { return harness.Marking(harness.Roctx64(t)) },
			[]string{"--marker-trace"}, 500, compareMarkers, &lateLibrary{unload: "/roctx/close", loaded: "/roctx/open"},
		},
		{"RCCL", plain(harness.RCCLCalls()), []string{"--rccl-trace"}, 20000, compareRCCL, &lateLibrary{args: []string{"--late", "1"}, loaded: "/load"}},
		{"graphs", plain(harness.Graphs()), []string{"--hip-runtime-trace"}, 3000, compareGraphs, nil},
	}
}

// A moment is when the tool attaches to a scene's program. Each returns the program, which ends, and its recordings.
type moment struct {
	name   string
	record func(t *testing.T, s *scene) (p *harness.Process, got bool, runs []harness.Run)
}

var moments = []moment{{"before", before}, {"after", after}, {"before the library", beforeLibrary}}

// before attaches when there is the HSA runtime and nothing else: HIP is not in use, and there are no queues, memory
// and threads of the program's.
func before(t *testing.T, s *scene) (*harness.Process, bool, []harness.Run) {
	p, release := harness.StartHeld(t, s.workload(t))
	r := p.Begin(t, s.all()...)
	r.Says(t, "✓ attached")
	got := s.byCallers(t, p)
	release()
	return p, got, []harness.Run{s.end(t, p, r)}
}

// after attaches when all exists and is in use.
func after(t *testing.T, s *scene) (*harness.Process, bool, []harness.Run) {
	p := harness.Start(t, s.workload(t))
	r := p.Begin(t, s.all()...)
	r.Says(t, "✓ attached")
	return p, s.byCallers(t, p), []harness.Run{s.end(t, p, r)}
}

// beforeLibrary attaches when the kind's library is not there, which the program then loads, and attaches again.
func beforeLibrary(t *testing.T, s *scene) (*harness.Process, bool, []harness.Run) {
	w := s.workload(t)
	w.Args = slices.Concat(w.Args, s.late.args)
	p := harness.Start(t, w)
	ask := func(request string) {
		t.Helper()
		if _, err := p.Get(request); err != nil {
			t.Fatalf("%s: %v\n%s", request, err, p.Output())
		}
	}
	if s.late.unload != "" {
		ask(s.late.unload)
	}
	first := p.RecordShortly(t, 80*time.Millisecond, s.all()...)
	ask(s.late.loaded)
	harness.Until(t, "the program uses the library", p.Dispatches(t, 200))
	r := p.Begin(t, s.all()...)
	r.Says(t, "✓ attached")
	return p, true, []harness.Run{first, s.end(t, p, r)}
}

// end ends a recording when it has enough. A runtime without events of scratch memory gives it nothing.
func (s *scene) end(t *testing.T, p *harness.Process, r *harness.Command) harness.Run {
	t.Helper()
	harness.Until(t, "enough is recorded", p.Dispatches(t, s.items))
	r.Interrupt(t)
	run := r.Wait(t)
	if run.Code != failure.NothingSeen {
		run.MustBe(t, failure.OK)
	}
	if err := run.Decode(); err != nil {
		t.Fatal(err)
	}
	return run
}

// byCallers reports whether HIP's functions, if the scene records them, are intercepted at their callers.
func (s *scene) byCallers(t *testing.T, p *harness.Process) bool {
	return strings.HasPrefix(s.flags[0], "--hip") && p.HIPByGOT(t)
}

// all are the flags of a recording in which nothing is discarded.
func (s *scene) all() []string {
	return slices.Concat(s.flags, []string{"--buffer-policy", "lossless"})
}

// Each kind of record on each runtime, or on this machine's without RTL_RUNTIMES: attached before and after what the
// items are made with exists.
func TestKinds(t *testing.T) {
	var rows []kindRow
	for _, suite := range append(suites(), "")[:max(len(suites()), 1)] {
		name := suite
		if suite == "" {
			name = "here"
		}
		t.Run(name, func(t *testing.T) { rows = append(rows, kindsOn(t, suite)...) })
	}
	printKinds(rows)
}

func kindsOn(t *testing.T, suite string) (rows []kindRow) {
	if suite != "" {
		rows = append(rows, kindRow{versions: versions(t, harness.FindRuntime(t, suite))})
		t.Setenv("RTL_RUNTIME", suite)
	}
	for _, s := range scenes() {
		for _, m := range moments {
			if m.name == "before the library" && s.late == nil {
				continue
			}
			t.Run(s.name+", attached "+m.name, func(t *testing.T) {
				found := []kindRow{{kind: s.name}}
				defer func() {
					for i := range found {
						found[i].attached, found[i].failed = m.name, t.Failed()
					}
					if !t.Skipped() {
						rows = append(rows, found...)
					}
				}()
				p, got, runs := m.record(t, &s)
				found = s.compare(t, p, got, runs...)
			})
		}
	}
	return rows
}

// --- comparisons ----------------------------------------------------------

func compareCalls(t *testing.T, p *harness.Process, got bool, runs ...harness.Run) []kindRow {
	d := dispatches(t, p, runs...)
	c := harness.CompareAPICalls(t, p, got, runs...)
	c.MustHaveRecorded(20, "hipMalloc", "hipFree", "hipMemcpyAsync", "hipModuleLaunchKernel", "hipEventRecord", "hsa_agent_get_info",
		"hsa_signal_wait_scacquire", "hsa_amd_memory_pool_allocate")
	return []kindRow{d, ofCalls("HIP calls", "hip", c), ofCalls("HSA calls", "hsa", c)}
}

func compareRCCL(t *testing.T, p *harness.Process, _ bool, runs ...harness.Run) []kindRow {
	c := harness.CompareAPICalls(t, p, true, runs...)
	c.MustHaveRecorded(50, "ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclBroadcast", "ncclSend", "ncclRecv", "ncclGroupStart", "ncclGroupEnd")
	return []kindRow{ofCalls("RCCL calls", "rccl", c)}
}

func ofCalls(kind, prefix string, c *harness.CallComparison) kindRow {
	r := kindRow{kind: kind, counted: map[string]int{}}
	for api, n := range c.Kinds {
		if strings.HasPrefix(api, prefix) {
			r.recorded, r.counted["lost"] = r.recorded+n, r.counted["lost"]+c.Missing[api]
		}
	}
	return r
}

// dispatches are those of a scene whose kinds are others.
func dispatches(t *testing.T, p *harness.Process, runs ...harness.Run) kindRow {
	c := harness.Check(t, p, nil, runs...)
	c.MustHaveRecorded(100)
	r := kindRow{kind: "dispatches", recorded: c.Recorded, counted: map[string]int{"lost": int(c.Lost)}}
	for reason, n := range c.Untimed {
		if reason != "after-detach" { // claimed in a window, executed after it
			r.counted[reason] = n
		}
	}
	return r
}

func compareCopies(t *testing.T, p *harness.Process, _ bool, runs ...harness.Run) []kindRow {
	counts := p.Quit(t)
	p.Truth(t).MustHoldOnce(t, counts)
	c := harness.CompareCopies(t, p, runs...)
	c.MustHaveRecorded(500)
	timed, untimed := c.Recorded()
	return []kindRow{{kind: "copies", recorded: timed, counted: map[string]int{"without times": untimed}}}
}

func compareAllocations(t *testing.T, p *harness.Process, _ bool, runs ...harness.Run) []kindRow {
	p.Quit(t)
	c := harness.CompareAllocations(t, p, runs...)
	r := kindRow{kind: "allocations"}
	for _, by := range []map[string]int{c.Direct, c.ByHIP} {
		for _, n := range by {
			r.recorded += n
		}
	}
	if len(c.Direct) < 4 || len(c.ByHIP) < 4 || c.Failed == 0 {
		t.Errorf("%v, %v, %d failed", c.Direct, c.ByHIP, c.Failed)
	}
	return []kindRow{r}
}

func compareMarkers(t *testing.T, p *harness.Process, _ bool, runs ...harness.Run) []kindRow {
	counts := p.Quit(t)
	p.Truth(t).MustHoldOnce(t, counts)
	calls, _, _ := p.MarkerCalls(t)
	c := harness.NewMarkerComparison(t, calls)
	for _, run := range runs {
		m := harness.SaysOfMarkers(t, run.Summary)
		if m == nil || m.Begun != m.Timed+m.Unexplained || m.Surplus != 0 {
			t.Fatalf("%s", run.Stderr)
		}
		c.Lost += m.Unexplained
		c.Add(harness.ReadMarkers(t, run.Trace))
	}
	c.Finish()
	if c.Recorded < 500 || c.Nested < 50 && c.Lost == 0 {
		t.Errorf("%d calls, %d nested", c.Recorded, c.Nested)
	}
	return []kindRow{{kind: "markers", recorded: c.Recorded, counted: map[string]int{"lost": c.Missing}}}
}

// compareScratch: an older runtime has no events, which the report must say.
func compareScratch(t *testing.T, p *harness.Process, _ bool, runs ...harness.Run) []kindRow {
	p.Quit(t)
	requests := p.ScratchRequests(t)
	r := kindRow{kind: "scratch", counted: map[string]int{}}
	for _, run := range runs {
		if harness.SaysOfScratch(t, run.Summary) == nil {
			t.Fatalf("the summary says nothing of scratch memory\n%s", run.Stderr)
		}
		found, armedNS, detachedNS := harness.ReadScratch(t, run.Trace)
		if said := harness.SaysOfScratch(t, run.Summary); said.Silent == 0 {
			r.recorded += harness.CompareScratch(t, found, armedNS, detachedNS, requests)
			continue
		}
		for _, request := range requests {
			if request.BeforeNS > armedNS && request.AfterNS < detachedNS {
				r.counted["the report says: no events in this runtime"]++
			}
		}
	}
	return []kindRow{r}
}

// compareGraphs compares the launches of graphs, which are calls of HIP: test/truth compares their kernels.
func compareGraphs(t *testing.T, p *harness.Process, got bool, runs ...harness.Run) []kindRow {
	const launch = "hipGraphLaunch"
	d := dispatches(t, p, runs...)
	c, replays := harness.NewCallComparison(t, p.APICalls(t), got), 0
	for _, run := range runs {
		tr := harness.ReadAPICalls(t, run.Trace)
		tr.Only = func(name string) bool { return name == launch }
		tr.Calls = slices.DeleteFunc(tr.Calls, func(call harness.APIRecord) bool { return call.Function != launch })
		tr.Settle()
		c.Add(tr)
		replays += len(harness.ReadReplays(t, run.Trace))
	}
	c.Finish()
	c.MustHaveRecorded(50, launch)
	if replays != c.Calls[launch] {
		t.Errorf("%d launches of graphs, %d calls", replays, c.Calls[launch])
	}
	return []kindRow{d, ofCalls("graph launches", "hip", c)}
}

// --- the table ------------------------------------------------------------

// A kindRow is a runtime, or what became of a kind's items that the truth has.
type kindRow struct {
	versions string // of a runtime: then nothing else

	kind, attached string
	recorded       int            // and equal to the truth
	counted        map[string]int // not recorded in full: how many, by the reason that the trace gives
	failed         bool
}

func printKinds(rows []kindRow) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "kind\tattached\tin the truth\trecorded\tresult\tcounted, not recorded in full")
	for _, r := range rows {
		fmt.Fprintln(w, r)
	}
	_ = w.Flush()
}

// String is a line of the table.
func (r kindRow) String() string {
	if r.versions != "" {
		return r.versions
	}
	result, truth := "equal", r.recorded
	if r.failed {
		result = "FAILED"
	}
	var reasons []string
	for reason, n := range r.counted {
		if truth += n; n > 0 {
			reasons = append(reasons, fmt.Sprintf("%d %s", n, reason))
		}
	}
	slices.Sort(reasons)
	return fmt.Sprintf("  %s\t%s\t%d\t%d\t%s\t%s", r.kind, r.attached, truth, r.recorded, result, strings.Join(reasons, ", "))
}
