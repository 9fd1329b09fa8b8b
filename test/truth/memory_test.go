package truth

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/python"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// Without BPF the Python functions of threads are sampled from the process's memory: each sample that is in a function of
// the engine's log was taken while the engine was in that function.
func TestThreadsWithoutBPF(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t)
	p := harness.Start(t, harness.Engine(t, ""))
	r := p.NewRecording(t, "--sched", "--sample", "wall:299", "--sample", "cpu:99")
	r.Cmd = exec.Command("setpriv", append([]string{"--bounding-set=-sys_admin,-bpf"}, r.Cmd.Args...)...)
	r.Cmd.Stdout, r.Cmd.Stderr = &r.Stdout, &r.Stderr
	r.Start(t)
	p.Active(t)
	harness.Until(t, "the engine makes steps while attached", p.Dispatches(t, 4000))
	r.Interrupt(t)
	run := r.Wait(t)
	p.StillAlive(t)
	p.Quit(t)
	if !strings.Contains(run.Stderr, "only the Python functions of threads are recorded") {
		t.Errorf("it does not say what is missing:\n%s", run.Stderr)
	}
	rows := harness.ReadThreads(t, run.Trace, 1)
	if rows.Method != "memory" || len(rows.Waits) > 0 {
		t.Fatalf("method %s, %d waits, %s", rows.Method, len(rows.Waits), rows.Detail)
	}
	compared := compareEngine(t, rows, p.EngineLog(t))
	t.Logf("%d samples, %d compared, %d lost", len(rows.Samples), compared, rows.Lost)
	if compared < 20 {
		t.Errorf("only %d samples in the engine's phases", compared)
	}
}

// Without BPF and without Python perf events sample the native stacks of threads that run.
func TestThreadsByPerf(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t)
	p := harness.StartCold(t, harness.Threads())
	p.Ready(t)
	r := p.NewRecording(t, "--sample", "cpu:499")
	r.Cmd = exec.Command("setpriv", append([]string{"--bounding-set=-sys_admin,-bpf"}, r.Cmd.Args...)...)
	r.Cmd.Stdout, r.Cmd.Stderr = &r.Stdout, &r.Stderr
	r.Start(t)
	p.Active(t)
	harness.Until(t, "the threads make progress while attached", p.Dispatches(t, 40))
	r.Interrupt(t)
	run := r.Wait(t)
	p.StillAlive(t)
	p.Quit(t)
	rows := harness.ReadThreads(t, run.Trace, 1)
	if rows.Method == "none" {
		testenv.Skip(t, rows.Detail)
	}
	if rows.Method != "perf" || len(rows.Waits) > 0 || !strings.Contains(run.Stderr, "only the native stacks of running threads are recorded") {
		t.Fatalf("method %s, %d waits\n%s", rows.Method, len(rows.Waits), run.Stderr)
	}
	compareSamples(t, rows, p.ThreadLog(t))
}

// compareEngine compares the samples with the engine's log, and returns how many it could.
func compareEngine(t *testing.T, rows harness.ThreadRows, log []harness.EnginePhase) (compared int) {
	t.Helper()
	first, last := log[0].BeginNS, log[len(log)-1].EndNS
	for _, s := range rows.Samples {
		if s.Clock == cputrace.CPUClock && !s.Ran() {
			t.Errorf("the CPU clock has a sample of thread %d, which did not run", s.TID)
		}
		in := slices.IndexFunc(s.Stack, func(f harness.ThreadFrame) bool {
			return slices.ContainsFunc(log, func(e harness.EnginePhase) bool { return e.Function == f.Name })
		})
		if in < 0 || s.TimeNS < first || s.TimeNS > last {
			continue
		}
		compared++
		if !slices.ContainsFunc(log, func(e harness.EnginePhase) bool {
			return e.Function == s.Stack[in].Name && e.BeginNS <= s.TimeNS+python.SlowestNS && s.TimeNS <= e.EndNS
		}) {
			t.Errorf("thread %d was not in %s at %d", s.TID, s.Stack[in].Name, s.TimeNS)
		}
	}
	return compared
}
