package truth

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/simlog"
)

// requestKernels is how many kernels of its own a request of the workload has; a graph may follow them.
const requestKernels = 40

// The steps of a server's threads are its requests, with and without graphs.
func TestSteps(t *testing.T) {
	t.Parallel()
	for _, graph := range []string{"off", "on"} {
		t.Run("graph-"+graph, func(t *testing.T) {
			p := harness.Start(t, harness.Workload{Program: "serve", Args: []string{"--threads", "2", "--streams", "2", "--rate", "100", "--kernels", "40", "--graph", graph}})
			run := p.RecordLast(t, 600*time.Millisecond, 3000)
			check(t, p, nil, run).MustHaveRecorded(300)
			r, err := report.Make(run.Trace, report.Options{Kernels: 1})
			if err != nil {
				t.Fatal(err)
			}
			found := map[int64]*report.Steps{}
			for i := range r.Steps {
				found[r.Steps[i].Thread] = &r.Steps[i]
			}
			for tid, of := range requestsOf(t, p, run) {
				whole, parts := int64(0), int64(0)
				numbers := slices.Sorted(maps.Keys(of))
				for _, n := range numbers { // of the first and the last one the graph may be missing, or a part of it
					if of[n] == requestKernels && n != numbers[0] && n != numbers[len(numbers)-1] {
						whole++
					} else {
						parts++
					}
				}
				one := found[tid]
				if one == nil {
					t.Errorf("thread %d: no steps in %d requests", tid, whole)
					continue
				}
				t.Logf("thread %d: %d steps, %d requests and parts of %d", tid, one.Steps, whole, parts)
				if one.Steps < whole || one.Steps > whole+parts {
					t.Errorf("thread %d: %d steps, %d requests and parts of %d: %+v", tid, one.Steps, whole, parts, one)
				}
			}
		})
	}
}

// requestsOf returns the timed kernels of each request, by thread and number.
func requestsOf(t *testing.T, p *harness.Process, run harness.Run) map[int64]map[uint64]int {
	t.Helper()
	requests := map[int64]map[uint64]int{}
	eachKernel(t, p, run, func(d *harness.Dispatch, number uint64, _ *simlog.Record) {
		if requests[d.TID] == nil {
			requests[d.TID] = map[uint64]int{}
		}
		requests[d.TID][(number-1)/requestKernels]++
	})
	return requests
}

// eachKernel visits the timed kernels of a trace that the workload has numbered, with the simulator's record.
func eachKernel(t *testing.T, p *harness.Process, run harness.Run, visit func(*harness.Dispatch, uint64, *simlog.Record)) {
	t.Helper()
	log, tr := p.Truth(t), harness.ReadTrace(t, run.Trace)
	type place struct {
		key   harness.Key
		index uint64
	}
	records := map[place]*simlog.Record{}
	for key, of := range log.Queues {
		for _, r := range of {
			records[place{key, r.Packet}] = r
		}
	}
	for i := range tr.Dispatches {
		d := &tr.Dispatches[i]
		if r := records[place{tr.Queues[d.Queue].Key, d.Index}]; r != nil && r.UniqueID != 0 {
			visit(d, r.UniqueID&(1<<40-1), r)
		}
	}
}
