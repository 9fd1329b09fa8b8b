package truth

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/faultpoints"
	"github.com/rtl-attach/rtl-attach/internal/session"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

func inPeriods(start, on, repeat int) []string {
	return []string{"--collection-period", fmt.Sprintf("%d:%d:%d", start, on, repeat), "--collection-period-unit", "msec"}
}

// Windows of a schedule: everything of them is in the trace, nothing of the time between them, and
// afterwards the target has nothing that it would not have after one recording.
func TestCollectionPeriods(t *testing.T) {
	windows := 20
	if testenv.Long() {
		windows = 1000
	}
	for name, w := range map[string]harness.Workload{
		"stress": harness.Stress(3, 2, 64, "--pace", "100"),
		"serve":  {Program: "serve", Args: []string{"--threads", "3", "--streams", "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.Start(t, w)
			first := p.RecordShortly(t, 50*time.Millisecond)
			before := p.Snapshot(t)
			run := p.Begin(t, inPeriods(30, 40, windows)...).Wait(t)
			run.MustBe(t, failure.OK)
			if err := run.Decode(); err != nil {
				t.Fatal(err)
			}
			p.NothingLeft(t, before)
			periods := harness.ReadPeriods(t, run.Trace)
			recorded := harness.CheckPeriods(t, periods)
			last := periods[len(periods)-1]
			if n := last.Number + last.Count; n != int64(windows) {
				t.Errorf("%d windows in the trace, %d in the schedule", n, windows)
			}
			check(t, p, p.TIDs(), first, run).MustHaveRecorded(10 * windows)
			logSwitches(t, periods)
			t.Logf("%d of %d windows recorded; %s", recorded, windows, lastLine(run.Stderr))
		})
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// logSwitches logs by how much switches were late: how busy the machine was decides, so no test
// depends on it.
func logSwitches(t *testing.T, periods []harness.Period) {
	t.Helper()
	var on, off []int64
	for _, p := range periods {
		if p.Session != 0 && p.PlannedNS != 0 && p.PlannedEndNS != 0 {
			on, off = append(on, p.ArmedNS-p.PlannedNS), append(off, p.DetachedNS-p.PlannedEndNS)
		}
	}
	if len(on) == 0 {
		return
	}
	slices.Sort(on)
	slices.Sort(off)
	at := func(all []int64, percent int) time.Duration { return time.Duration(all[(len(all)-1)*percent/100]) }
	t.Logf("%d switches on: late by %v, 90 %% by at most %v, worst %v; off: %v, %v, %v",
		len(on), at(on, 50), at(on, 90), at(on, 100), at(off, 50), at(off, 90), at(off, 100))
}

// isOff waits until the session is between two windows. before is how many sessions there were; the attach's
// arming, which begins no window, is one.
func isOff(t *testing.T, p *harness.Process, r *harness.Command, before uint32) {
	t.Helper()
	r.Drains(t)
	harness.Until(t, "it is off between two windows", func() bool {
		st := p.Status(t)
		return st.State == off && st.Sessions > before+1
	})
}

const off = "off"

// Every way to end in an off-time: the target is as after a detach, and the trace has the windows until then.
func TestEndsWhileOff(t *testing.T) {
	// The second window never comes.
	schedule := []string{"--schedule", "boottime:0s:700ms:1,monotonic:1h:1s:1"}
	for name, end := range map[string]struct {
		do   func(*testing.T, *harness.Process, *harness.Command)
		code failure.ExitCode
	}{
		"interrupt": {func(t *testing.T, _ *harness.Process, r *harness.Command) { r.Interrupt(t) }, failure.OK},
		"detach": {func(t *testing.T, p *harness.Process, _ *harness.Command) {
			d := harness.NewCommand(t, "detach", fmt.Sprint(p.PID))
			d.Start(t)
			d.MustExit(t, 0)
		}, failure.OK},
		"tool killed":  {func(_ *testing.T, _ *harness.Process, r *harness.Command) { r.Kill() }, -1},
		"target exits": {func(t *testing.T, p *harness.Process, _ *harness.Command) { p.Quit(t) }, failure.TargetExited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := harness.Start(t, harness.Stress(3, 2, 64, "--pace", "20"))
			p.RecordShortly(t, 50*time.Millisecond)
			before := p.Snapshot(t)
			args := append(slices.Clone(schedule), "--set", "RTL_RECORDER_TIMEOUT_MS=1000")
			r := p.Begin(t, args...)
			isOff(t, p, r, 1)
			now := p.Snapshot(t)
			if tid := now.ThreadNamed("rtl-worker"); tid != 0 || len(now.Threads) != len(before.Threads) {
				t.Errorf("threads while off %v, before %v", now.Threads, before.Threads)
			}
			if hooks := p.Status(t).Inventory.HooksPatched; hooks != 0 {
				t.Errorf("%d hooks while off", hooks)
			}
			end.do(t, p, r)
			run := r.Wait(t)
			if run.Code != end.code {
				t.Errorf("exit code %d, expected %d\n%s", run.Code, end.code, run.Stderr)
			}
			if end.code != failure.TargetExited {
				harness.Until(t, "it is dormant", func() bool { return p.Status(t).State == "dormant" })
				p.NothingLeft(t, before)
				p.StillAlive(t)
				p.Quit(t)
			}
			if n := harness.CheckPeriods(t, harness.ReadPeriods(t, run.Trace)); n != 1 {
				t.Errorf("%d windows recorded", n)
			}
			c := harness.Compare(t, p.Truth(t))
			c.Killed = end.code == -1
			c.Add(harness.ReadTrace(t, run.Trace))
			c.Finish(nil)
		})
	}
}

// Every way to end in the middle of a switch.
func TestEndsInSwitch(t *testing.T) {
	for _, c := range []struct{ step, fault string }{
		{faultpoints.Beginning, "fail"},
		{faultpoints.Beginning, "orphan"},
		{faultpoints.Beginning, "die"},
		{"drain", "fail"},
		{"drain", "orphan"},
		{"drain", "die"},
	} {
		t.Run(c.step+" "+c.fault, func(t *testing.T) {
			t.Parallel()
			p := harness.Start(t, harness.Stress(2, 2, 64, "--pace", "10"))
			before := p.Snapshot(t)
			r := p.Begin(t, append(inPeriods(20, 40, 5), "--payload", harness.TestPayload(t), "--set", "RTL_RECORDER_TIMEOUT_MS=1000",
				"--set", "RTL_TEST_FAIL_STEP="+c.step, "--set", "RTL_TEST_FAULT="+c.fault)...)
			run := r.Wait(t)
			want := map[string]failure.ExitCode{"fail": failure.OK, "orphan": -1, "die": failure.TargetExited}[c.fault]
			if run.Code != want && run.Code != failure.NothingSeen { // on a busy machine all windows may be over before they begin
				t.Errorf("exit code %d, expected %d\n%s", run.Code, want, run.Stderr)
			}
			if c.fault == "die" {
				return
			}
			harness.Until(t, "it is dormant", func() bool { return p.Status(t).State == "dormant" })
			p.NothingLeft(t, before)
			p.StillAlive(t)
			counts := p.Quit(t)
			p.Truth(t).MustHoldOnce(t, counts)
		})
	}
}

// The application shuts its runtime down and starts it again, in windows and between them.
func TestScheduleShutDown(t *testing.T) {
	const runtimes = 4
	w := harness.Stress(3, 2, 64, "--pace", "10", "--cycles", fmt.Sprint(runtimes))
	w.Args = append(w.Args, "--seconds", "1")
	p := harness.Start(t, w)
	run := p.Begin(t, inPeriods(70, 130, 0)...).Wait(t)
	run.MustBe(t, failure.TargetExited)
	counts := p.Finish(t)
	log := p.Truth(t)
	log.MustHoldOnce(t, counts)
	c := harness.Compare(t, log)
	c.Producers = false // each runtime has threads of its own
	c.Add(harness.ReadTrace(t, run.Trace))
	c.Finish(nil)
	c.MustHaveRecorded(50)
	harness.CheckPeriods(t, harness.ReadPeriods(t, run.Trace))
}

// Schedules by other clocks, and a delay.
func TestScheduleClocks(t *testing.T) {
	p := harness.Start(t, harness.Stress(2, 2, 64, "--pace", "20"))
	var runs []harness.Run
	for _, args := range [][]string{
		{"--schedule", "realtime:30ms:50ms:2"},
		{"--schedule", "monotonic:30ms:50ms:1,boottime:10ms:50ms:1"},
		{"--schedule", "cputime:5ms:20ms:2"},
		{"--delay", "100ms", "-d", "100ms"},
	} {
		var run harness.Run
		harness.Until(t, "a window is recorded", func() bool { // on a busy machine all may be over before they begin
			run = p.Begin(t, args...).Wait(t)
			return run.Code != failure.NothingSeen
		})
		run.MustBe(t, failure.OK)
		if err := run.Decode(); err != nil {
			t.Fatal(err)
		}
		periods := harness.ReadPeriods(t, run.Trace)
		if n := harness.CheckPeriods(t, periods); n == 0 || n > 2 {
			t.Errorf("%v: %d windows", args, n)
		}
		logSwitches(t, periods)
		runs = append(runs, run)
	}
	check(t, p, p.TIDs(), runs...)
}

// Several processes begin and end their windows at the same moments.
func TestScheduleTogether(t *testing.T) {
	f := harness.StartFleet(t, 2)
	workers := f.Workers(t)
	var trace string
	var run harness.Run
	// On a busy machine all may be over before they begin, or before the tool takes a process's first records.
	harness.Until(t, "windows are recorded", func() bool {
		trace = filepath.Join(t.TempDir(), "trace.db")
		r := harness.NewCommand(t, append([]string{"record", "--json", "-p", fmt.Sprint(f.PID), "-o", trace}, inPeriods(20, 50, 3)...)...)
		r.Trace = trace
		r.Start(t)
		run = r.Wait(t)
		return run.Code != failure.NothingSeen && !strings.Contains(run.Stderr, session.CauseMissed)
	})
	run.MustBe(t, failure.OK)
	planned := map[int64][2]int64{}
	of := map[int64][]harness.Period{}
	for _, p := range harness.ReadPeriods(t, trace) {
		of[p.PID] = append(of[p.PID], p)
		if p.Count > 1 {
			continue
		}
		times := [2]int64{p.PlannedNS, p.PlannedEndNS}
		if known, ok := planned[p.Number]; ok && known != times {
			t.Errorf("window %d is at %v, in another process at %v", p.Number, times, known)
		}
		planned[p.Number] = times
	}
	if len(of) != len(workers) {
		t.Errorf("windows of %d processes, expected %d; the tool said:\n%s", len(of), len(workers), run.Stderr)
	}
	for _, periods := range of {
		harness.CheckPeriods(t, periods)
		logSwitches(t, periods)
	}
}
