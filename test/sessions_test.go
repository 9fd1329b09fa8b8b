package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/session"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

// Attach, detach, attach … under load: one program, many traces, one truth.
func TestReattach(t *testing.T) {
	cycles := 20
	if harness.Long() {
		cycles = 500
	}
	for name, w := range map[string]harness.Workload{
		"stress": stress(6, 2, 64, "--pace", "20"),
		"serve":  {Program: "serve", Args: []string{"--threads", "3", "--streams", "4"}},
	} {
		t.Run(name, func(t *testing.T) { reattach(t, w, cycles) })
	}
}

func reattach(t *testing.T, w harness.Workload, cycles int) {
	p := harness.Start(t, w)
	var runs []harness.Run
	for i := range cycles {
		d := time.Duration(60+i%7*20) * time.Millisecond
		run := p.Record(t, d, "--buffer-size", "4MiB")
		runs = append(runs, run)
		if i%10 == 0 {
			p.StillAlive(t)
		}
	}
	if st := p.Status(t); st.State != "dormant" || int(st.Sessions) != cycles {
		t.Errorf("state %s after %d sessions, expected dormant after %d", st.State, st.Sessions, cycles)
	}
	check(t, p, p.TIDs(), runs...).MustHaveRecorded(100 * cycles)
}

// The application shuts its runtime down and starts it anew under a recording:
// the tool goes on in a further session, or ends cleanly. Here it goes on.
func TestShutDown(t *testing.T) {
	for _, seconds := range []int{1, 2} {
		t.Run(fmt.Sprint(seconds), func(t *testing.T) {
			w := stress(4, 2, 64, "--pace", "10", "--cycles", "3")
			w.Args = append(w.Args, "--seconds", fmt.Sprint(seconds))
			p := harness.Start(t, w)
			run := p.TryRecord(t, time.Duration(seconds)*3300*time.Millisecond)
			counts := p.Finish(t)
			if run.Code != session.TargetExited && run.Code != session.OK {
				t.Errorf("exit code %d\n%s", run.Code, run.Stderr)
			}
			log := p.Truth(t)
			log.MustHoldOnce(t, counts)
			c := harness.Compare(t, log)
			c.Producers = false // each cycle has threads of its own
			tr := harness.ReadTrace(t, run.Trace)
			c.Add(tr)
			c.Finish(nil)
			c.MustHaveRecorded(1000)
			if len(tr.Sessions) != 3 {
				t.Errorf("%d sessions in the trace, the application had 3 runtimes\n%s", len(tr.Sessions), run.Stderr)
			}
		})
	}
}
