package truth

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// The wall clock samples threads that sleep all the time, too, with their stacks.
func TestThreadsWall(t *testing.T) {
	t.Parallel()
	rows, log, _ := recordThreads(t, harness.Threads(), 60, "--sample", "wall:100")
	sampled := map[int64]int{}
	for _, s := range rows.Sampled(cputrace.WallClock) {
		sampled[s.TID]++
		if !s.Ran() && len(s.Stack) == 0 {
			t.Errorf("a sample of thread %d at %d has no stack", s.TID, s.TimeNS)
		}
	}
	if len(rows.Samples) != len(rows.Sampled(cputrace.WallClock)) || len(rows.Waits) != 0 {
		t.Errorf("%d waits, and samples by another clock", len(rows.Waits))
	}
	slept, most := map[int64]int64{}, (rows.EndedNS-rows.BegunNS)/2
	for _, e := range log {
		if e.What == "sleep" {
			slept[e.TID] += max(0, min(e.EndNS, rows.EndedNS)-max(e.BeginNS, rows.BegunNS))
		}
	}
	compared := 0
	for tid, ns := range slept {
		if ns < most {
			continue
		}
		compared++
		if n := sampled[tid]; n < 2 {
			t.Errorf("thread %d slept for %d ns of %d, and has %d samples", tid, ns, rows.EndedNS-rows.BegunNS, n)
		}
	}
	if compared == 0 {
		t.Error("no thread slept for most of the recording")
	}
	sleeps := func(s harness.ThreadSample) bool {
		return slices.ContainsFunc(s.Stack, func(f harness.ThreadFrame) bool { return strings.Contains(f.Name, "run_sleeper") })
	}
	if !slices.ContainsFunc(rows.Samples, sleeps) {
		t.Error("no sample of the thread that sleeps by turns")
	}
}

// Each of several processes has its own rows, and the end of one of them leaves those of the other whole.
func TestThreadsOfSeveral(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t)
	a, b := harness.StartCold(t, harness.Threads()), harness.StartCold(t, harness.Threads())
	a.Ready(t)
	b.Ready(t)
	r := a.Begin(t, "-p", strconv.Itoa(b.PID), "--sched", "--sample", "cpu:499")
	a.Active(t)
	b.Active(t)
	harness.Until(t, "the threads of the first make progress", a.Dispatches(t, 30))
	a.Quit(t)
	harness.Until(t, "the threads of the second make progress", b.Dispatches(t, 30))
	r.Interrupt(t)
	run := r.Wait(t)
	b.Quit(t)
	for i, p := range []*harness.Process{a, b} {
		rows := harness.ReadThreads(t, run.Trace, int64(i+1))
		if rows.Method == "none" {
			testenv.Skip(t, rows.Detail)
		}
		compareWaits(t, rows, p.ThreadLog(t))
		compareSamples(t, rows, p.ThreadLog(t))
	}
}

// Two threads that do nothing but wake each other: what is not in the trace is counted.
func TestThreadsWorstCase(t *testing.T) {
	t.Parallel()
	rows, log, _ := recordThreads(t, harness.Threads("--balls", "1"), 30, "--sched")
	compareWaits(t, rows, log)
	short := int64(0)
	for _, n := range rows.ShortWaits {
		short += n
	}
	t.Logf("%d waits with rows, %d shorter ones, %d lost", len(rows.Waits), short, rows.Lost)
	if short < 1000 {
		t.Errorf("only %d short waits", short)
	}
}

// A tool that is killed leaves no program in the kernel.
func TestThreadsKill(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t)
	p := harness.StartCold(t, harness.Threads())
	p.Ready(t)
	r := p.Begin(t, "--sched", "--sample", "cpu:99", "--sample", "wall:20")
	p.Active(t)
	harness.Until(t, "the threads make progress while attached", p.Dispatches(t, 5))
	ids := programsOf(t, r.Cmd.Process.Pid)
	if len(ids) == 0 {
		testenv.Skip(t, "BPF is not permitted here")
	}
	if err := r.Cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.Wait(t)
	harness.Until(t, "the programs are removed", func() bool {
		return !slices.ContainsFunc(ids, func(id int) bool {
			program, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
			if err == nil {
				program.Close()
			}
			return err == nil
		})
	})
	p.StillAlive(t)
	p.Quit(t)
}

// programsOf lists the BPF programs that a process has open.
func programsOf(t *testing.T, pid int) (ids []int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, _ := os.ReadFile(f) // it may be closed
		if m := regexp.MustCompile(`(?m)^prog_id:\s*(\d+)$`).FindSubmatch(b); m != nil {
			id, _ := strconv.Atoi(string(m[1]))
			ids = append(ids, id)
		}
	}
	return ids
}
