package truth

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/kind/markers"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

// Every call of ROCTx while recording is recorded once, with its text, its order and its nesting,
// in four sessions of one process; and another tool, which was there first, sees all calls.
func TestMarkers(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"alone": nil, "above another tool": {"--tool", "on"}} {
		t.Run(name, func(t *testing.T) {
			p := harness.Start(t, harness.Marking(harness.Roctx64(t), args...))
			before := p.RoctxSlot(t)
			if (before != 0) != (args != nil) {
				t.Fatalf("slot %#x", before)
			}
			way := markers.Recorded
			if before != 0 {
				way = markers.Chained
			}
			compareMarkers(t, p, markers.Libraries{ROCTx64: way}, func() {
				if after := p.RoctxSlot(t); after != before {
					t.Errorf("slot %#x, before %#x", after, before)
				}
			})
			if _, made, seen := p.MarkerCalls(t); args != nil && (made != seen || made == 0) {
				t.Errorf("the other tool saw %d of %d calls", seen, made)
			}
		})
	}
}

// The same by the table of rocprofiler-sdk's library.
func TestMarkersOfSDK(t *testing.T) {
	t.Parallel()
	library := harness.BuiltFile(t, filepath.Join("victims", "librocprofiler-sdk-roctx.so"))
	p := harness.Start(t, harness.Marking(library))
	before := p.RoctxTable(t)
	compareMarkers(t, p, markers.Libraries{SDK: markers.Recorded}, func() {
		if after := p.RoctxTable(t); !bytes.Equal(after, before) {
			t.Errorf("table %x, before %x", after, before)
		}
	})
}

// compareMarkers records a program in four sessions, calls detached after each, and compares.
func compareMarkers(t *testing.T, p *harness.Process, want markers.Libraries, detached func()) {
	t.Helper()
	var runs []harness.Run
	for i := range 4 {
		runs = append(runs, p.Record(t, time.Duration(150+100*(i%2))*time.Millisecond, "--marker-trace", "--buffer-policy", "lossless"))
		detached()
		p.StillAlive(t)
	}
	counts := p.Quit(t)
	p.Truth(t).MustHoldOnce(t, counts)
	calls, _, _ := p.MarkerCalls(t)
	c := harness.NewMarkerComparison(t, calls)
	for _, run := range runs {
		checkMarkerReport(t, run, want)
		c.Add(harness.ReadMarkers(t, run.Trace))
	}
	c.Finish()
	if c.Recorded < 1000 || c.Nested < 50 || c.Across < 20 {
		t.Errorf("too little was compared: %d calls, %d nested, %d across threads", c.Recorded, c.Nested, c.Across)
	}
}

// checkMarkerReport checks a summary's section. Each kernel is in the two ranges of its step, unless these began before the window.
func checkMarkerReport(t *testing.T, run harness.Run, want markers.Libraries) {
	t.Helper()
	m := harness.SaysOfMarkers(t, run.Summary)
	if m == nil || m.Begun == 0 || m.Begun != m.Timed || m.Unexplained != 0 || m.Surplus != 0 {
		t.Fatalf("%s", run.Stderr)
	}
	ways := map[markers.Way]string{markers.NotLoaded: "not loaded", markers.Recorded: "recorded", markers.Chained: "recorded, and passed on to another tool"}
	if l := m.Libraries; len(l) != 2 || l[0].Way != ways[want.ROCTx64] || l[1].Way != ways[want.SDK] {
		t.Errorf("%+v, want %+v", l, want)
	}
	var ranges, kernels int64
	for _, one := range m.Phases {
		if one.Kind == "range" {
			ranges += one.Count
			kernels += one.Kernels
		}
	}
	timed := int64(run.Summary.Coverage.Timed)
	if timed == 0 || kernels < 2*timed*9/10-10 || kernels > ranges {
		t.Errorf("%d timed, %d times one is in one of %d ranges", timed, kernels, ranges)
	}
}

// markerDamages are changes to what a trace tells; the comparison must report their kinds.
var markerDamages = []struct {
	what, kind string // kind "": none
	do         func(calls []harness.MarkerCall, victim int) []harness.MarkerCall
}{
	{"nothing", "", func(calls []harness.MarkerCall, _ int) []harness.MarkerCall { return calls }},
	{"another text", "call", func(calls []harness.MarkerCall, i int) []harness.MarkerCall { calls[i].Text += "x"; return calls }},
	{"earlier", "call", func(calls []harness.MarkerCall, i int) []harness.MarkerCall { calls[i].BeforeNS -= 1e9; return calls }},
	{"missing", "missing", func(calls []harness.MarkerCall, i int) []harness.MarkerCall { return slices.Delete(calls, i, i+1) }},
	{"twice", "call", func(calls []harness.MarkerCall, i int) []harness.MarkerCall { return slices.Insert(calls, i, calls[i]) }},
	{"the first are missing", "missing", func(calls []harness.MarkerCall, i int) []harness.MarkerCall { return calls[i:] }},
	{"the last are missing", "missing", func(calls []harness.MarkerCall, i int) []harness.MarkerCall { return calls[:i] }},
	{"without nesting", "level", func(calls []harness.MarkerCall, i int) []harness.MarkerCall {
		return slices.DeleteFunc(calls, func(c harness.MarkerCall) bool { return c.Operation == harness.MarkerPush })
	}},
}

// A comparison that cannot fail proves nothing: it reports every damage to a correct trace.
func TestMarkerComparison(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Marking(harness.Roctx64(t)))
	run := p.RecordUntil(t, 200*time.Millisecond, 300, "--marker-trace", "--buffer-policy", "lossless")
	p.Quit(t)
	calls, _, _ := p.MarkerCalls(t)
	recorded := harness.ReadMarkers(t, run.Trace)
	tid := slices.Sorted(maps.Keys(recorded))[0]
	for _, d := range markerDamages {
		t.Run(strings.ReplaceAll(d.what, " ", "-"), func(t *testing.T) {
			damaged := maps.Clone(recorded)
			damaged[tid] = d.do(slices.Clone(recorded[tid]), len(recorded[tid])/2)
			var found findings
			c := harness.NewMarkerComparison(&found, calls)
			c.Add(damaged)
			c.Finish()
			if n := len(c.Faults()); d.kind == "" && n > 0 || d.kind != "" && c.Faults()[d.kind] == 0 {
				t.Errorf("expected %q, found %v", d.kind, c.Faults())
			}
		})
	}
}

// A tool that comes during a session replaces our callback: the trace says so, keeps what was
// recorded before, and the tool's callback stays.
func TestMarkersTaken(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Marking(harness.Roctx64(t)))
	r := p.Begin(t, "--marker-trace", "--buffer-policy", "lossless")
	r.Says(t, "✓ attached")
	harness.Until(t, "calls are recorded", p.Dispatches(t, 1000))
	if said, err := p.Get("/tool/enter"); err != nil || said != "entered\n" {
		t.Fatal(said, err)
	}
	theirs := p.RoctxSlot(t)
	harness.Until(t, "the worker has seen it", p.Dispatches(t, 2000))
	r.Interrupt(t)
	run := r.MustRecord(t)
	m := harness.SaysOfMarkers(t, run.Summary)
	var ways []string
	for _, l := range m.Libraries {
		ways = append(ways, l.Way)
	}
	if want := []string{"recorded", "not recorded: another tool has taken its place", "not loaded"}; !slices.Equal(ways, want) || m.Timed == 0 || m.Timed != m.Begun {
		t.Errorf("%d of %d calls, %+v", m.Timed, m.Begun, m.Libraries)
	}
	if now := p.RoctxSlot(t); now != theirs {
		t.Errorf("slot %#x, theirs was %#x", now, theirs)
	}
	again := harness.SaysOfMarkers(t, p.RecordUntil(t, 100*time.Millisecond, 100, "--marker-trace").Summary)
	if again == nil || again.Begun != 0 || again.Libraries[0].Way != "not recorded: another tool has taken its place" {
		t.Errorf("later: %+v", again.Libraries)
	}
	p.StillAlive(t)
	p.Quit(t)
}

// The program loads ROCTx's library during a session, which says so and has none of its calls. The next one has them.
func TestMarkersLoadedDuringRecording(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Marking(harness.Roctx64(t)))
	ask := func(request string) {
		t.Helper()
		if _, err := p.Get(request); err != nil {
			t.Fatalf("%s: %v\n%s", request, err, p.Output())
		}
	}
	ask("/roctx/close") // no session has used it
	r := p.Begin(t, "--marker-trace", "--buffer-policy", "lossless")
	r.Says(t, "✓ attached")
	ask("/roctx/open")
	harness.Until(t, "it calls ROCTx", p.Dispatches(t, 500))
	r.Interrupt(t)
	m := harness.SaysOfMarkers(t, r.MustRecord(t).Summary)
	if m == nil || m.Begun != 0 || m.Libraries[0].Way != "not recorded: the process loaded it during the recording" || m.Libraries[1].Way != "not loaded" {
		t.Errorf("%+v", m)
	}
	run := p.RecordUntil(t, 50*time.Millisecond, 500, "--marker-trace", "--buffer-policy", "lossless")
	checkMarkerReport(t, run, markers.Libraries{ROCTx64: markers.Recorded})
	p.StillAlive(t)
	p.Quit(t)
}

// The program unloads ROCTx's library during a session, as far as it can: the payload uses the library's slot, and
// keeps it loaded. What it has put there is taken out, and the program gets its library again.
func TestMarkersUnloaded(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Marking(harness.Roctx64(t)))
	before := p.RoctxSlot(t)
	ask := func(request string) {
		t.Helper()
		if _, err := p.Get(request); err != nil {
			t.Fatalf("%s: %v\n%s", request, err, p.Output())
		}
	}
	r := p.Begin(t, "--marker-trace", "--buffer-policy", "lossless")
	r.Says(t, "✓ attached")
	harness.Until(t, "calls are recorded", p.Dispatches(t, 500))
	ask("/roctx/close")
	r.Interrupt(t)
	runs := []harness.Run{r.MustRecord(t)}
	if after := p.RoctxSlot(t); after != before {
		t.Errorf("slot %#x, before %#x", after, before)
	}
	p.RecordShortly(t, 50*time.Millisecond, "--marker-trace") // without a library that the program uses
	ask("/roctx/open")
	runs = append(runs, p.RecordUntil(t, 50*time.Millisecond, 500, "--marker-trace", "--buffer-policy", "lossless"))
	counts := p.Quit(t)
	p.Truth(t).MustHoldOnce(t, counts)
	calls, _, _ := p.MarkerCalls(t)
	c := harness.NewMarkerComparison(t, calls)
	for _, run := range runs {
		checkMarkerReport(t, run, markers.Libraries{ROCTx64: markers.Recorded})
		c.Add(harness.ReadMarkers(t, run.Trace))
	}
	c.Finish()
}
