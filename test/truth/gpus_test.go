package truth

import (
	"os"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// A recording of one GPU has all of its kernels. The queues of the other one stay as they are where the runtime says
// to which GPU a queue belongs; elsewhere their kernels are timed and left out.
func TestFilterGPUs(t *testing.T) {
	for _, c := range []struct {
		name    string
		runtime func(*testing.T) *harness.Runtime
		says    bool // the runtime has hsa_amd_queue_get_info
	}{
		{"filtered", func(*testing.T) *harness.Runtime { return nil }, false},
		{"untouched", func(t *testing.T) *harness.Runtime {
			r := harness.FindRuntime(t, "sid")
			return &r
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if !c.says && os.Getenv("RTL_RUNTIME") != "" {
				testenv.Skip(t, "the ROCm of RTL_RUNTIME may say whose a queue is")
			}
			w := harness.Stress(2, 4, 64, "--pace", "200")
			w.Runtime, w.Sim = c.runtime(t), []string{"SOFTGPU_GPUS=2"}
			recordOneGPU(t, harness.Start(t, w), c.says)
		})
	}
}

func recordOneGPU(t *testing.T, p *harness.Process, says bool) {
	run := p.RecordLast(t, 300*time.Millisecond, 500, "--gpu", "1")
	threads := p.TIDs()
	counts := p.Quit(t)
	log := p.Truth(t)
	log.MustHoldOnce(t, counts)
	tr := harness.ReadTrace(t, run.Trace)
	excluded := tr.Counters["queues_excluded"]
	if says {
		if n := dropGPU(log, 0, tr.Sessions[0].ArmedNS); n == 0 || excluded != n || len(tr.Filtered) != 0 {
			t.Errorf("%d queues of the other GPU were left as they were, of %d; filtered: %+v", excluded, n, tr.Filtered)
		}
	} else if excluded != 0 || run.Summary.Coverage.Filtered == 0 {
		t.Errorf("%d queues are said to be left as they were, %d kernels were filtered", excluded, run.Summary.Coverage.Filtered)
	}
	for _, d := range tr.Dispatches {
		if gpu := tr.Queues[d.Queue].GPU; gpu != 1 {
			t.Fatalf("a kernel of GPU %d is in the trace", gpu)
		}
	}
	for _, g := range run.Summary.GPUs {
		if says && g.Dispatches == 0 {
			t.Errorf("the summary has a GPU of which nothing was recorded: %+v", g)
		}
	}
	c := harness.Compare(t, log)
	c.Add(tr)
	c.Summary(run, tr)
	c.Finish(threads)
	c.MustHaveRecorded(200)
}

// dropGPU removes the queues of a GPU from the log, and returns how many of them executed something after a time.
func dropGPU(log *harness.Log, gpu int, afterNS int64) (active int64) {
	for key, records := range log.Queues {
		if len(records) > 0 && records[0].Node == gpu {
			delete(log.Queues, key)
			if int64(records[len(records)-1].EndNS) > afterNS {
				active++
			}
		}
	}
	return active
}
