package truth

import (
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/cpusample"
	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// System calls of the program (arch/x86/entry/syscalls/syscall_64.tbl).
const (
	sysFutex          = 202
	sysClockNanosleep = 230
)

// recordThreads records the program until it has made so much progress, ends it, and returns its log.
func recordThreads(t *testing.T, w harness.Workload, progress int, args ...string) (harness.ThreadRows, []harness.ThreadEntry, harness.Run) {
	t.Helper()
	testenv.NeedRoot(t)
	p := harness.StartCold(t, w)
	p.Ready(t)
	r := p.Begin(t, args...)
	p.Active(t)
	harness.Until(t, "the threads make progress while attached", p.Dispatches(t, progress))
	r.Interrupt(t)
	run := r.Wait(t)
	run.MustBe(t, failure.NothingSeen) // the program dispatches nothing
	p.StillAlive(t)
	p.Quit(t)
	rows := harness.ReadThreads(t, run.Trace, 1)
	if rows.Method != "bpf" {
		testenv.Skip(t, rows.Detail)
	}
	if rows.Detail != "" {
		t.Error(rows.Detail)
	}
	if warned := strings.Contains(run.Stderr, "what the threads did is not complete"); warned != (rows.Lost > 0) {
		t.Errorf("%d events lost, and the tool says\n%s", rows.Lost, run.Stderr)
	}
	return rows, p.ThreadLog(t), run
}

// What threads did is what they say themselves: each wait with its times and its waker, each sample in the
// function in which the thread was, up to the thread's start.
func TestThreads(t *testing.T) {
	t.Parallel()
	rows, log, _ := recordThreads(t, harness.Threads(), 60, "--sched", "--sample", "cpu:499")
	compareWaits(t, rows, log)
	compareSamples(t, rows, log)
}

// compareWaits compares the waits in a futex and the sleeps. A wait of less than cpusample.LeastWait has no row, and is
// counted.
func compareWaits(t *testing.T, rows harness.ThreadRows, log []harness.ThreadEntry) {
	t.Helper()
	calls := map[string]int64{"wait": sysFutex, "sleep": sysClockNanosleep}
	blocked := map[int64][]harness.ThreadWait{}
	for _, w := range rows.Waits {
		if w.State != 0 {
			blocked[w.TID] = append(blocked[w.TID], w)
		}
	}
	compared, short := 0, map[int64]int64{}
	lost := rows.Lost + int64(len(blocked)) // nothing before a thread's first switch, or after its last one, shows what is missing there
	for _, e := range log {
		if calls[e.What] == 0 || e.BeginNS < rows.BegunNS || e.EndNS > rows.EndedNS {
			continue
		}
		compared++
		var during []harness.ThreadWait
		for _, w := range blocked[e.TID] {
			if w.OutNS >= e.BeginNS && w.OutNS <= e.EndNS {
				during = append(during, w)
			}
		}
		if len(during) == 0 {
			short[e.TID]++
			continue
		}
		w := during[0]
		if w.WokenNS == 0 && lost > 0 {
			lost-- // the kernel did not report the waking, and the tool says so
			continue
		}
		if len(during) > 1 || w.Syscall != calls[e.What] || w.InNS > e.EndNS || w.WokenNS < w.OutNS || w.WokenNS > w.InNS || w.Waker != e.Waker || w.OtherPID != 0 ||
			e.Address != 0 && w.Address != e.Address || w.Cut || len(w.Stack) == 0 {
			t.Errorf("%+v\nis recorded as %+v", e, during)
		}
	}
	for tid, n := range short {
		if lost -= max(n-rows.ShortWaits[tid], 0); lost < 0 {
			t.Errorf("thread %d: %d waits without a row, %d shorter than %v, %d lost", tid, n, rows.ShortWaits[tid], cpusample.LeastWait, rows.Lost)
		}
	}
	t.Logf("%d waits compared, %d lost", compared, rows.Lost)
	if compared < 20 {
		t.Errorf("only %d waits in the recording", compared)
	}
}

// compareSamples compares the functions of the thread that runs in two by turns, and finds each stack complete.
func compareSamples(t *testing.T, rows harness.ThreadRows, log []harness.ThreadEntry) {
	t.Helper()
	compared, deepest, cut := 0, 0, 0
	for _, s := range rows.Sampled(cputrace.CPUClock) {
		if !s.Ran() || len(s.Stack) == 0 {
			t.Errorf("a sample of thread %d at %d: state %d, %v", s.TID, s.TimeNS, s.State, s.Stack)
		}
		if s.Cut && !isAtEdge(s) {
			t.Logf("cut: thread %d at %d: %v", s.TID, s.TimeNS, s.Stack)
			cut++
		}
		deepest = max(deepest, len(s.Stack))
		in := slices.IndexFunc(s.Stack, func(f harness.ThreadFrame) bool { return strings.Contains(f.Name, "phase_") })
		if in < 0 {
			continue
		}
		compared++
		if !slices.ContainsFunc(log, func(e harness.ThreadEntry) bool {
			return e.What == "run" && e.TID == s.TID && e.BeginNS <= s.TimeNS && s.TimeNS <= e.EndNS && strings.Contains(s.Stack[in].Name, e.Function)
		}) {
			t.Errorf("thread %d was not in %s at %d", s.TID, s.Stack[in].Name, s.TimeNS)
		}
	}
	if cut > 1+len(rows.Samples)/10 { // in some moments the kernel cannot read the stack of the thread that it interrupts
		t.Errorf("%d of %d stacks are cut", cut, len(rows.Samples))
	}
	t.Logf("%d samples of known functions, the deepest stack has %d frames", compared, deepest)
	if compared == 0 || deepest < 40 {
		t.Errorf("%d samples of known functions, the deepest of %d frames", compared, deepest)
	}
}

// isAtEdge reports whether a sample is of a thread that just begins, or has given its stack back.
func isAtEdge(s harness.ThreadSample) bool {
	return len(s.Stack) == 1 && slices.Contains([]string{"clone3", "start_thread"}, s.Stack[0].Name)
}
