package harness

import (
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
)

// Reattach records a workload repeatedly, for windows of changing length, and checks now and then
// that it is alive.
func (p *Process) Reattach(t testing.TB, cycles int, args ...string) []Run {
	t.Helper()
	var runs []Run
	for i := range cycles {
		d := time.Duration(60+i%7*20) * time.Millisecond
		runs = append(runs, p.RecordShortly(t, d, args...))
		if i%10 == 0 {
			p.StillAlive(t)
		}
	}
	if st := p.Status(t); st.State != "dormant" || int(st.Sessions) != cycles {
		t.Errorf("state %s after %d sessions, expected dormant after %d", st.State, st.Sessions, cycles)
	}
	return runs
}

// RecordShortly makes a recording that must succeed, but may record nothing: so short a window
// may be between two bursts.
func (p *Process) RecordShortly(t testing.TB, d time.Duration, args ...string) Run {
	t.Helper()
	run := p.TryRecord(t, d, append([]string{"--buffer-size", "4MiB"}, args...)...)
	if run.Code != failure.NothingSeen {
		run.MustBe(t, failure.OK)
	}
	if err := run.Decode(); err != nil {
		t.Fatal(err)
	}
	return run
}

// Check ends a recorded workload and compares the simulator's log with its traces.
func Check(t testing.TB, p *Process, threads map[int64]bool, runs ...Run) *Comparison {
	t.Helper()
	counts := p.Quit(t)
	log := p.Truth(t)
	log.MustHoldOnce(t, counts)
	c := Compare(t, log)
	for _, run := range runs {
		tr := ReadTrace(t, run.Trace)
		c.Add(tr)
		c.Summary(run, tr)
	}
	c.Finish(threads)
	return c
}
