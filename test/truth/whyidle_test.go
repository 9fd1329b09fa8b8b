package truth

import (
	"fmt"
	"maps"
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
	w, why := debiansEngine(t, "sid", "/usr/bin/python3.14")
	if why != "" {
		testenv.Skip(t, why)
	}
	whyIdle(t, w)
}

// debiansEngine is the engine in a root file system of Debian; why: it is not there.
func debiansEngine(t *testing.T, suite, python string) (w harness.Workload, why string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(testenv.BuildDir(), "roots", suite, python)); err != nil {
		return w, "the root file system " + suite + " has no " + python
	}
	r := harness.FindRuntime(t, suite)
	w = harness.Engine(t, python)
	if !r.Has(w.Program) {
		return w, "the runtime " + suite + " was made before this program: make runtimes"
	}
	w.Runtime = &r
	return w, ""
}

// The same for each version of Python that is there, at 99 samples a second and at 999: in RTL_PYTHONS=/path/python3.12:…, in
// this machine's directory, in pyenv's, in Debian's root file systems.
func TestWhyIdleVersions(t *testing.T) {
	if !testenv.Long() {
		testenv.Skip(t, "each version of Python: RTL_LONG=1, RTL_PYTHONS")
	}
	engines := map[string]harness.Workload{}
	for _, python := range pythons() {
		engines[strings.ReplaceAll(strings.TrimPrefix(python, "/"), "/", "-")] = harness.Engine(t, python)
	}
	for suite, python := range map[string]string{"trixie": "/usr/bin/python3.13", "sid": "/usr/bin/python3.14"} {
		if w, why := debiansEngine(t, suite, python); why == "" {
			engines[suite+"-"+filepath.Base(python)] = w
		} else {
			t.Log(why)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(engines)) {
		t.Run(name+"/99", func(t *testing.T) { whyIdleAt(t, engines[name], 99, 70_000) })
		t.Run(name+"/999", func(t *testing.T) { whyIdleAt(t, engines[name], 999, 32_000) })
	}
}

// pythons returns the interpreters of the supported versions on this machine.
func pythons() (all []string) {
	found := filepath.SplitList(os.Getenv("RTL_PYTHONS"))
	home, _ := os.UserHomeDir() // "": a pattern that nothing matches
	for _, pattern := range []string{"/usr/bin/python3.1[1-4]", "/usr/local/bin/python3.1[1-4]", filepath.Join(home, ".pyenv/versions/*/bin/python3.1[1-4]")} {
		some, _ := filepath.Glob(pattern) // the patterns are right
		found = append(found, some...)
	}
	for _, one := range found {
		if real, err := filepath.EvalSymlinks(one); err == nil && !slices.Contains(all, real) {
			all = append(all, real)
		}
	}
	return all
}

// A worker that waits for another recorded process: the answer says what that one did.
func TestWhyIdleProcesses(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t)
	socket := filepath.Join(t.TempDir(), "turns")
	start := func(role string) *harness.Process {
		w := harness.Engine(t, "")
		w.Args = []string{role, socket}
		p := harness.StartCold(t, w)
		p.Ready(t)
		harness.Until(t, "it waits for a worker", func() bool { _, err := os.Stat(socket); return err == nil })
		return p
	}
	core := start("--core")
	worker := start("--worker")
	harness.Until(t, "the worker makes steps", worker.Dispatches(t, 50))
	trace := filepath.Join(t.TempDir(), "trace.db")
	r := harness.NewCommand(t, "record", "-p", fmt.Sprintf("%d,%d", core.PID, worker.PID), "-o", trace, "--sched", "--sample", "cpu:999")
	r.Start(t)
	core.Active(t)
	worker.Active(t)
	harness.Until(t, "the worker makes steps while attached", worker.Dispatches(t, 1200)) // 100 of them
	r.Interrupt(t)
	r.MustExit(t, 0)
	core.Quit(t)
	worker.Quit(t)
	if rows := harness.ReadThreads(t, trace, 1); rows.Method != "bpf" {
		testenv.Skip(t, rows.Detail)
	}
	made, err := report.Make(trace, report.Options{Gaps: 400})
	if err != nil {
		t.Fatal(err)
	}
	var all, byCore, planned int64
	for _, g := range made.LongestGaps {
		for _, c := range g.Causes {
			if c.Thread == nil || c.Thread.PID != int64(worker.PID) || c.State != report.IdleBlocked || c.In == nil || c.In.Function != "Engine.worker" || c.WaitsFor != "recvfrom" {
				continue
			}
			all++
			w := c.Waker
			if w == nil || w.PID != int64(core.PID) || w.Name != "engine" {
				t.Log(c.Text)
				continue
			}
			if byCore++; w.In != nil && w.In.Function == "Scheduler.plan" {
				planned++
			}
		}
	}
	for _, g := range made.WhyIdle.GPUs {
		for _, c := range g.Causes[:min(2, len(g.Causes))] {
			t.Logf("%.1f%% %s", c.Percent, c.Text)
		}
	}
	t.Logf("%d waits, %d ended by the core, in %d of them it planned for half of the time", all, byCore, planned)
	if byCore < 50 || byCore < all*9/10 || planned == 0 { // a core that has no processor for a while is ready instead
		t.Errorf("of %d waits for the core %d say so, and %d what it did", all, byCore, planned)
	}
}

func whyIdle(t *testing.T, w harness.Workload) {
	t.Helper()
	whyIdleAt(t, w, 999, 4000) // kernels of 330 steps and more
}

func whyIdleAt(t *testing.T, w harness.Workload, hz, kernels int) {
	t.Helper()
	testenv.NeedRoot(t)
	p := harness.Start(t, w)
	r := p.Begin(t, "--sched", "--sample", fmt.Sprintf("cpu:%d", hz), "--buffer-policy", "lossless")
	p.Active(t)
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
	comparePhases(t, &made.WhyIdle.GPUs[0], hz, want, idle, foldedPhases(t, run.Trace, want))
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
// deviations are allowed beside a point for the phases' borders. In the long form no more is allowed than 2 points at 99 samples a
// second and 1 at 999, of phases for which there are so many samples that this is three deviations.
func comparePhases(t *testing.T, g *report.WhyIdleGPU, hz int, want map[string]int64, idleNS int64, got map[string]int64) {
	t.Helper()
	percent := func(ns int64) float64 { return 100 * float64(ns) / float64(idleNS) }
	promised := 1.0
	if hz < 999 {
		promised = 2
	}
	running, samples := percent(g.RunningNS), float64(max(1, g.Samples))
	sum, most, mostAllowed := 0.0, 0.0, 0.0
	for _, name := range slices.Sorted(maps.Keys(want)) {
		off := percent(got[name]) - percent(want[name])
		part := min(0.5, (1+percent(want[name]))/max(running, 1)) // of the running time, at most; a half deviates most
		deviation := 3 * running * math.Sqrt(part*(1-part)/samples)
		allowed := 1 + deviation
		if testenv.Long() && deviation < promised {
			allowed = min(allowed, promised)
		}
		t.Logf("%-24s %5.1f%% of the idle time by its own clock, %5.1f%% by waits and samples, %.1f points allowed",
			name, percent(want[name]), percent(got[name]), allowed)
		if math.Abs(off) > allowed {
			t.Errorf("%s: %.1f points off, %.1f are allowed with %d samples", name, off, allowed, g.Samples)
		}
		sum += percent(want[name])
		most, mostAllowed = max(most, math.Abs(off)), max(mostAllowed, allowed)
	}
	t.Logf("measured: %d Hz, %d samples, %.0f%% of %.1f s idle was running: at most %.1f points off, %.1f allowed",
		hz, g.Samples, running, float64(idleNS)/1e9, most, mostAllowed)
	if len(want) < 5 || sum < 50 || g.Samples < 100 {
		t.Errorf("too little was compared: %.1f%% of the idle time in %d phases, %d samples", sum, len(want), g.Samples)
	}
}
