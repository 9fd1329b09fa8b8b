package truth

import (
	"maps"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/simlog"
)

// TestRuntimeIntercepts: the runtime intercepts queues itself, for a tool that it has loaded before us
// (hsa_amd_queue_intercept_create). What producers have is no queue of the hardware's: its dispatches are not recorded, and
// the coverage says so. The others are, in full.
func TestRuntimeIntercepts(t *testing.T) {
	for _, c := range []struct {
		name, oneIn       string
		recorded, foreign int
	}{
		{"all", "1", 0, 4},
		{"half", "2", 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// With little in the rings: when one is full, Debian's runtime aborts by itself (InterceptQueue::Submit).
			w := harness.Stress(8, 4, 1024, "--kind", "0", "--pace", "300")
			w.Sim = []string{"HSA_TOOLS_LIB=" + harness.WorkloadFile(t, "intercepts.so"), "INTERCEPT_ONE_IN=" + c.oneIn}
			p := harness.Start(t, w)
			before := p.Snapshot(t)
			var runs []harness.Run
			for range 2 {
				runs = append(runs, recordWhatIsSeen(t, p))
			}
			p.NothingLeft(t, before)
			threads := p.TIDs()
			counts := p.Quit(t)
			log := p.Truth(t)
			log.MustHoldOnce(t, counts)
			for _, run := range runs {
				s := run.Summary.Coverage
				if s.QueuesForeign != int64(c.foreign) || s.QueuesRecorded != int64(c.recorded) || s.Complete() {
					t.Errorf("%+v\n%s", s, run.Stderr)
				}
			}
			if c.recorded > 0 {
				compareRecorded(t, log, threads, c.recorded, runs...)
			}
		})
	}
}

func recordWhatIsSeen(t *testing.T, p *harness.Process) harness.Run {
	t.Helper()
	run := p.TryRecordUntil(t, 400*time.Millisecond, 1000)
	if run.Code != failure.NothingSeen {
		run.MustBe(t, failure.OK)
	}
	if err := run.Decode(); err != nil {
		t.Fatal(err)
	}
	p.StillAlive(t)
	return run
}

// compareRecorded compares without the queues that no function of the API names.
func compareRecorded(t *testing.T, log *harness.Log, threads map[int64]bool, queues int, runs ...harness.Run) {
	t.Helper()
	var traces []*harness.Trace
	seen := map[harness.Key]bool{}
	for _, run := range runs {
		tr := harness.ReadTrace(t, run.Trace)
		traces = append(traces, tr)
		for _, q := range tr.Queues {
			seen[q.Key] = true
		}
	}
	maps.DeleteFunc(log.Queues, func(key harness.Key, _ []*simlog.Record) bool { return !seen[key] })
	if len(log.Queues) != queues {
		t.Errorf("%d queues of the hardware's were recorded", len(log.Queues))
	}
	c := harness.Compare(t, log)
	for i, tr := range traces {
		c.Add(tr)
		c.Summary(runs[i], tr)
	}
	c.Finish(threads)
	c.MustHaveRecorded(100)
}
