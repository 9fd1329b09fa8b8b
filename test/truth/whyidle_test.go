package truth

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/export"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/whyidle"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// What an engine did while its GPU was idle is what it says itself, phase by phase.
func TestWhyIdle(t *testing.T) {
	t.Parallel()
	whyIdle(t, harness.Engine(t, ""))
}

// The same of a server in C++, without frame pointers.
func TestWhyIdleNative(t *testing.T) {
	t.Parallel()
	whyIdle(t, harness.Infer())
}

// The same with Debian's Python 3.14, whose evaluation function is many functions that end in tail calls.
func TestWhyIdleTailCalls(t *testing.T) {
	t.Parallel()
	r := harness.FindRuntime(t, "sid")
	w := harness.Engine(t, "/usr/bin/python3.14")
	if _, err := os.Stat(filepath.Join(testenv.BuildDir(), "roots/sid", w.Under[0])); err != nil || !r.Has(w.Program) {
		testenv.Skip(t, "the runtime sid has no python3.14, or was made before this program: make runtimes")
	}
	w.Runtime = &r
	whyIdle(t, w)
}

// The same for each version of Python that is there: RTL_PYTHONS=/path/python3.12:/path/python3.13.
func TestWhyIdleVersions(t *testing.T) {
	if !testenv.Long() {
		testenv.Skip(t, "each version of Python: RTL_LONG=1, RTL_PYTHONS")
	}
	for _, python := range filepath.SplitList(os.Getenv("RTL_PYTHONS")) {
		t.Run(filepath.Base(python), func(t *testing.T) { whyIdle(t, harness.Engine(t, python)) })
	}
}

func whyIdle(t *testing.T, w harness.Workload) {
	t.Helper()
	testenv.NeedRoot(t)
	p := harness.Start(t, w)
	r := p.Begin(t, "--sched", "--sample", "cpu:999", "--buffer-policy", "lossless")
	p.Active(t)
	const kernels = 4000 // of 330 steps and more
	harness.Until(t, "the engine makes steps while attached", p.Dispatches(t, kernels))
	r.Interrupt(t)
	run := r.Wait(t)
	p.StillAlive(t)
	p.Quit(t)
	rows := harness.ReadThreads(t, run.Trace, 1)
	if rows.Method != "bpf" {
		testenv.Skip(t, rows.Detail)
	}
	checkPlaces(t, rows)
	checkLocks(t, rows)
	made, err := report.Make(run.Trace, report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Under) > 0 {
		checkGIL(t, &made.WhyIdle.GPUs[0])
	}
	want, idle := harness.IdlePhases(t, run.Trace, p.EngineLog(t), rows.BegunNS, rows.EndedNS)
	comparePhases(t, &made.WhyIdle.GPUs[0], want, idle, foldedPhases(t, run.Trace, want))
}

// checkPlaces finds Python frames between native ones: a thread begins in native code, whatever it runs.
func checkPlaces(t *testing.T, rows harness.ThreadRows) {
	t.Helper()
	mixed, last := 0, 0
	for _, s := range rows.Samples {
		if s.Cut || !slices.ContainsFunc(s.Stack, func(f harness.ThreadFrame) bool { return f.Kind == cputrace.Python }) {
			continue
		}
		if mixed++; s.Stack[len(s.Stack)-1].Kind == cputrace.Python {
			last++
		}
	}
	t.Logf("%d stacks with Python frames, in %d of them they come last", mixed, last)
	if last > mixed/10 {
		t.Errorf("Python frames come last in %d of %d stacks", last, mixed)
	}
}

// checkLocks compares waits for Python's lock by its address with those by the names of functions, where there are names.
func checkLocks(t *testing.T, rows harness.ThreadRows) {
	t.Helper()
	byAddress, byName := 0, 0
	for i := range rows.Waits {
		w := &rows.Waits[i]
		isWait := w.State != 0 && w.Syscall == unix.SYS_FUTEX
		at := slices.IndexFunc(rows.Locks, func(l harness.ThreadLock) bool { return l.Waits(w) })
		named := slices.IndexFunc(w.Stack, func(f harness.ThreadFrame) bool { return f.Kind == cputrace.Python || f.Name == "take_gil" })
		isNamed := isWait && named >= 0 && w.Stack[named].Name == "take_gil"
		if isWait && at >= 0 {
			byAddress++
		}
		if isNamed {
			byName++
		}
		if isNamed && at < 0 {
			t.Errorf("a wait in take_gil at %#x is not at a lock of %+v", w.Address, rows.Locks)
		}
	}
	t.Logf("%d waits for Python's lock by its address, %d by names", byAddress, byName)
}

// checkGIL finds waits for Python's lock among the causes, whether or not the interpreter's functions have names, and who
// released it.
func checkGIL(t *testing.T, g *report.WhyIdleGPU) {
	t.Helper()
	all, released := int64(0), int64(0)
	for _, c := range g.Causes {
		if c.WaitsFor != whyidle.ForGIL {
			continue
		}
		all += c.NS
		if c.Waker != nil {
			released += c.NS
			t.Logf("%.1f%% %s", c.Percent, c.Text)
		}
	}
	if all == 0 || released < all/2 {
		t.Errorf("of %d ns of waits for the GIL, the causes say for %d who released it", all, released)
	}
}

// foldedPhases returns the idle time with each of some functions in its stack.
func foldedPhases(t *testing.T, trace string, functions map[string]int64) map[string]int64 {
	t.Helper()
	output := filepath.Join(t.TempDir(), "idle.folded")
	f, _ := export.FormatNamed("folded")
	if _, err := f.Write(t.Context(), trace, output, 0); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for line := range strings.Lines(string(b)) {
		ns, err := strconv.ParseInt(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 10, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for name := range functions {
			if strings.Contains(line, ";"+name+" (") || strings.Contains(line, ";"+name+";") {
				got[name] += ns
			}
		}
	}
	return got
}

// comparePhases compares shares of the idle time. Waits are exact; what ran is by samples, of which three standard
// deviations are allowed beside a point for the phases' borders.
func comparePhases(t *testing.T, g *report.WhyIdleGPU, want map[string]int64, idleNS int64, got map[string]int64) {
	t.Helper()
	percent := func(ns int64) float64 { return 100 * float64(ns) / float64(idleNS) }
	allowed := 1 + 1.5*percent(g.RunningNS)/math.Sqrt(float64(max(1, g.Samples)))
	sum := 0.0
	for name, ns := range want {
		off := percent(got[name]) - percent(ns)
		t.Logf("%-24s %5.1f%% of the idle time by its own clock, %5.1f%% by waits and samples", name, percent(ns), percent(got[name]))
		if math.Abs(off) > allowed {
			t.Errorf("%s: %.1f points off, %.1f are allowed with %d samples", name, off, allowed, g.Samples)
		}
		sum += percent(ns)
	}
	if len(want) < 5 || sum < 50 || g.Samples < 100 {
		t.Errorf("too little was compared: %.1f%% of the idle time in %d phases, %d samples", sum, len(want), g.Samples)
	}
}
