package runtimes

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"
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
	compare  func(t *testing.T, r *recording) []kindRow
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
	marking := func(t *testing.T) harness.Workload { return harness.Marking(harness.Roctx64(t)) }
	return []scene{
		{"calls", plain(harness.HIPCalls("--pace", "1000")), []string{"--hip-trace", "--hsa-trace", "--hsa-signal-trace"}, 15000, compareCalls, nil},
		{"copies", plain(harness.Copier()), []string{"--memory-copy-trace", "--set", "RTL_DRAIN_TIMEOUT_MS=8000"}, 2000, compareCopies, nil},
		{"allocations", plain(harness.Allocator()), []string{"--memory-allocation-trace"}, 2000, compareAllocations, nil},
		{"scratch", plain(harness.ScratchRequester()), []string{"--scratch-memory-trace"}, 200, compareScratch, nil},
		{"markers", marking, []string{"--marker-trace"}, 500, compareMarkers, &lateLibrary{unload: "/roctx/close", loaded: "/roctx/open"}},
		{"RCCL", plain(harness.RCCLCalls()), []string{"--rccl-trace"}, 20000, compareRCCL, &lateLibrary{args: []string{"--late", "1"}, loaded: "/load"}},
		{"graphs", plain(harness.Graphs()), []string{"--hip-runtime-trace"}, 3000, compareGraphs, nil},
	}
}

// A recording is what a scene's program was recorded as.
type recording struct {
	*harness.Process
	byCallers bool // HIP's functions are intercepted at their callers
	all       bool // from the program's first call on
	runs      []harness.Run
}

// A moment is when the tool attaches to a scene's program.
type moment struct {
	name   string
	record func(t *testing.T, s *scene) *recording
}

const (
	beforehand   = "before"
	libraryLater = "before the library"

	here = "here" // this machine's runtime
)

var moments = []moment{{beforehand, before}, {"after", after}, {libraryLater, beforeLibrary}}

// before attaches when there is the HSA runtime and nothing else: HIP is not in use, and there are no queues, memory
// and threads of the program's.
func before(t *testing.T, s *scene) *recording {
	p, release := harness.StartHeld(t, s.workload(t))
	r := p.Begin(t, s.all()...)
	r.Says(t, "✓ attached")
	byCallers := s.byCallers(t, p)
	release()
	return &recording{p, byCallers, true, []harness.Run{s.end(t, p, r)}}
}

// after attaches when all exists and is in use.
func after(t *testing.T, s *scene) *recording {
	p := harness.Start(t, s.workload(t))
	r := p.Begin(t, s.all()...)
	r.Says(t, "✓ attached")
	return &recording{p, s.byCallers(t, p), false, []harness.Run{s.end(t, p, r)}}
}

// beforeLibrary attaches when the kind's library is not there, which the program then loads, and attaches again.
func beforeLibrary(t *testing.T, s *scene) *recording {
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
	return &recording{p, false, false, []harness.Run{first, s.end(t, p, r)}}
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
	tr := harness.ReadTrace(t, run.Trace)
	for _, wrong := range tr.CheckKinds(slices.Sorted(maps.Keys(tr.Kinds)), true) {
		t.Error(wrong)
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

// Each kind of record on each runtime, attached before and after what the items are made with exists. Without RTL_RUNTIMES it is this
// machine's, attached to before: test/truth attaches to it after.
func TestKinds(t *testing.T) {
	var table kindTable
	for _, suite := range append(suites(), "")[:max(len(suites()), 1)] {
		name := cmp.Or(suite, here)
		table.suites = append(table.suites, name)
		t.Run(name, func(t *testing.T) {
			if suite != "" {
				table.versions = append(table.versions, versions(t, harness.FindRuntime(t, suite)))
				t.Setenv("RTL_RUNTIME", suite)
			}
			for _, s := range scenes() {
				s.run(t, name, &table)
			}
		})
	}
	table.print()
}

func (s *scene) run(t *testing.T, suite string, table *kindTable) {
	for _, m := range moments {
		if m.name == libraryLater && s.late == nil || suite == here && m.name != beforehand {
			continue
		}
		t.Run(s.name+" attached "+m.name, func(t *testing.T) {
			found := []kindRow{{kind: s.name}}
			defer func() {
				for _, r := range found {
					r.suite, r.attached, r.failed = suite, m.name, t.Failed()
					if !t.Skipped() {
						table.rows = append(table.rows, r)
					}
				}
			}()
			found = s.compare(t, m.record(t, s))
		})
	}
}

// --- comparisons ----------------------------------------------------------

// endsSound ends the program, whose GPU work must have been done once.
func (r *recording) endsSound(t *testing.T) {
	t.Helper()
	counts := r.Quit(t)
	r.Truth(t).MustHoldOnce(t, counts)
}

func compareCalls(t *testing.T, r *recording) []kindRow {
	d := r.dispatches(t)
	c := r.calls(t, r.byCallers)
	c.MustHaveRecorded(20, "hipMalloc", "hipFree", "hipMemcpyAsync", "hipModuleLaunchKernel", "hipEventRecord", "hsa_agent_get_info",
		"hsa_signal_wait_scacquire", "hsa_amd_memory_pool_allocate")
	return []kindRow{d, ofCalls("HIP calls", "hip", c), ofCalls("HSA calls", "hsa", c)}
}

func compareRCCL(t *testing.T, r *recording) []kindRow {
	r.dispatches(t)
	c := r.calls(t, true)
	c.MustHaveRecorded(50, "ncclAllReduce", "ncclReduceScatter", "ncclAllGather", "ncclBroadcast", "ncclSend", "ncclRecv", "ncclGroupStart", "ncclGroupEnd")
	return []kindRow{ofCalls("RCCL calls", "rccl", c)}
}

func (r *recording) calls(t *testing.T, byCallers bool) *harness.CallComparison {
	t.Helper()
	c := harness.NewCallComparison(t, r.APICalls(t), byCallers)
	c.All = r.all
	for _, run := range r.runs {
		c.Add(harness.ReadAPICalls(t, run.Trace))
	}
	c.Finish()
	return c
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
func (r *recording) dispatches(t *testing.T) kindRow {
	t.Helper()
	c := harness.Check(t, r.Process, nil, r.runs...)
	c.MustHaveRecorded(100)
	row := kindRow{kind: "dispatches", recorded: c.Recorded, counted: map[string]int{"lost": int(c.Lost)}}
	for reason, n := range c.Untimed {
		if reason != "after-detach" { // claimed in a window, executed after it
			row.counted[reason] = n
		}
	}
	return row
}

func compareCopies(t *testing.T, r *recording) []kindRow {
	r.endsSound(t)
	c := harness.NewCopyComparison(t, r.CopyTruth(t), r.CopyCalls(t))
	c.All = r.all
	for _, run := range r.runs {
		copies, account := harness.ReadCopies(t, run.Trace)
		harness.MustSayCopies(t, run.Summary, copies, account)
		c.Add(copies, account, harness.ReadTrace(t, run.Trace).Sessions[0])
	}
	c.Finish()
	c.MustHaveRecorded(500)
	timed, untimed := c.Recorded()
	return []kindRow{{kind: "copies", recorded: timed, counted: map[string]int{"without times": untimed}}}
}

func compareAllocations(t *testing.T, r *recording) []kindRow {
	r.Quit(t)
	c, row := harness.NewAllocationComparison(t, r.AllocationCalls(t)), kindRow{kind: "allocations", counted: map[string]int{}}
	c.All = r.all
	for _, run := range r.runs {
		rows, account := harness.ReadAllocations(t, run.Trace)
		harness.MustSayAllocations(t, run.Summary, rows, account)
		c.Add(rows, account)
	}
	for _, by := range []map[string]int{c.Direct, c.ByHIP} {
		for _, n := range by {
			row.recorded += n
		}
	}
	row.counted["lost"] = c.Missing
	if len(c.Direct) < 4 || len(c.ByHIP) < 4 || c.Failed == 0 {
		t.Errorf("%v, %v, %d failed", c.Direct, c.ByHIP, c.Failed)
	}
	return []kindRow{row}
}

func compareMarkers(t *testing.T, r *recording) []kindRow {
	r.endsSound(t)
	calls, _, _ := r.MarkerCalls(t)
	c := harness.NewMarkerComparison(t, calls)
	c.All = r.all
	for _, run := range r.runs {
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
func compareScratch(t *testing.T, r *recording) []kindRow {
	r.endsSound(t)
	requests := r.ScratchRequests(t)
	row := kindRow{kind: "scratch", counted: map[string]int{}}
	for _, run := range r.runs {
		if harness.SaysOfScratch(t, run.Summary) == nil {
			t.Fatalf("the summary says nothing of scratch memory\n%s", run.Stderr)
		}
		found, armedNS, detachedNS := harness.ReadScratch(t, run.Trace)
		if said := harness.SaysOfScratch(t, run.Summary); said.Silent == 0 {
			row.recorded += harness.CompareScratch(t, found, armedNS, detachedNS, requests)
			continue
		}
		for _, request := range requests {
			if request.BeforeNS > armedNS && request.AfterNS < detachedNS {
				row.counted["no events, as the report says"]++
			}
		}
	}
	return []kindRow{row}
}

// compareGraphs compares the launches of graphs, which are calls of HIP: test/truth compares their kernels.
func compareGraphs(t *testing.T, r *recording) []kindRow {
	const launch = "hipGraphLaunch"
	d := r.dispatches(t)
	d.kind = "dispatches, graphs"
	c, replays := harness.NewCallComparison(t, r.APICalls(t), r.byCallers), 0
	c.All = r.all
	for _, run := range r.runs {
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
