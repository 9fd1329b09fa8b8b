package truth

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/simlog"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// checkFiltered is check for recordings with a filter of names.
func checkFiltered(t *testing.T, p *harness.Process, excludes func(string) bool, runs ...harness.Run) (*harness.Comparison, *harness.Log) {
	t.Helper()
	threads := p.TIDs()
	counts := p.Quit(t)
	log := p.Truth(t)
	log.MustHoldOnce(t, counts)
	c := harness.Compare(t, log)
	c.Excludes = excludes
	for _, run := range runs {
		tr := harness.ReadTrace(t, run.Trace)
		c.Add(tr)
		c.Summary(run, tr)
	}
	c.Finish(threads)
	return c, log
}

// Each included kernel is in the trace, each excluded one is counted, and the times in which
// excluded kernels ran are those of the truth, in a server with signals of its own and of the payload.
func TestFilterNames(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Workload{Program: "serve", Args: []string{"--threads", "3", "--streams", "4"}})
	excluded := regexp.MustCompile("silu_and_mul|rms_norm|Cijk_Ailk")
	first := p.RecordUntil(t, 300*time.Millisecond, 2000, "--kernel-exclude-regex", "silu_and_mul|fused_add_rms_norm_kernel<|^Cijk_Ailk")
	last := p.RecordLast(t, 300*time.Millisecond, 2000, "--kernel-include-regex", "attention|elementwise|gemm|decode", "--kernel-exclude-regex", "rms_norm")
	c, _ := checkFiltered(t, p, excluded.MatchString, first, last)
	c.MustHaveRecorded(200)
	if c.Filtered < 200 {
		t.Errorf("only %d kernels were filtered", c.Filtered)
	}
	for _, run := range []harness.Run{first, last} {
		if len(run.Summary.Filters) == 0 || run.Summary.Coverage.Filtered == 0 || len(run.Summary.LeftOutKernels) == 0 {
			t.Errorf("the summary does not say what was filtered: %+v", run.Summary.Filters)
		}
	}
}

// Of each kernel name those dispatches are in the trace that the range selects.
func TestFilterIterations(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Stress(1, 1, 64))
	run := p.RecordLast(t, 100*time.Millisecond, 1000, "--kernel-iteration-range", "[3-5],[50]", "--buffer-policy", "lossless")
	_, log := checkFiltered(t, p, nil, run)
	tr := harness.ReadTrace(t, run.Trace)
	byEnd, wanted := byEnds(log, tr), []int{3, 4, 5, 50}
	got := map[string]int{}
	for _, d := range tr.Dispatches {
		name, nth := nthOf(byEnd, d.Index, wanted)
		if nth == 0 {
			t.Errorf("packet %d of %q is in the trace", d.Index, name)
		}
		got[name]++
	}
	for name, all := range byEnd {
		want := 0
		for _, n := range wanted {
			if n <= len(all) {
				want++
			}
		}
		if got[name] != want {
			t.Errorf("%s: %d dispatches of %d in the trace", name, got[name], want)
		}
	}
}

// sameEndNS is how far the times of a trace can be from the log's: of kernels that end within it, either
// may be the first.
const sameEndNS = 50

// byEnds returns the timed dispatches in the only window of a trace by kernel name, in the order in which they ended.
func byEnds(log *harness.Log, tr *harness.Trace) map[string][]*simlog.Record {
	untimed := func(packet uint64) bool {
		return slices.ContainsFunc(tr.Untimed, func(u harness.Untimed) bool { return packet >= u.Index && packet < u.Index+u.Packets })
	}
	all := map[string][]*simlog.Record{}
	for _, w := range tr.Windows {
		for _, r := range log.Queues[tr.Queues[w.Queue].Key] {
			if r.Kind == simlog.Kernel && r.Packet >= w.First && r.Packet < w.End && !untimed(r.Packet) {
				all[r.Name] = append(all[r.Name], r)
			}
		}
	}
	for _, of := range all {
		slices.SortFunc(of, func(a, b *simlog.Record) int { return cmp.Compare(a.EndNS, b.EndNS) })
	}
	return all
}

// nthOf returns the kernel name of a packet, and which of the wanted dispatches of that name it can be; 0: none.
func nthOf(byEnd map[string][]*simlog.Record, packet uint64, wanted []int) (name string, nth int) {
	for name, of := range byEnd {
		i := slices.IndexFunc(of, func(r *simlog.Record) bool { return r.Packet == packet })
		if i < 0 {
			continue
		}
		for _, n := range wanted {
			if n <= len(of) && max(of[n-1].EndNS, of[i].EndNS)-min(of[n-1].EndNS, of[i].EndNS) <= sameEndNS {
				return name, n
			}
		}
		return name, 0
	}
	return "", 0
}

// Only the processes with the selected ranks are recorded, and the trace says which ones are not. A
// report on some ranks of a whole trace has only those.
func TestFilterRanks(t *testing.T) {
	f := harness.StartFleet(t, 3)
	whole := f.RecordEach(t, 300*time.Millisecond, 200)
	run := f.RecordEach(t, 300*time.Millisecond, 200, "--rank", "1-2")
	fleet := f.Workers(t)
	counts := f.Quit(t, fleet)
	selected := maps.Clone(fleet)
	delete(selected, 0)
	checkWorkers(t, selected, counts, run.Trace)
	found := byOutcome(run.Summary)
	if n := len(found[tracedb.OutcomeRecorded]); n != 2 {
		t.Errorf("%d workers are recorded: %+v", n, run.Summary.Processes)
	}
	if others := found[tracedb.OutcomeOtherRank]; len(others) != 1 || others[0].Rank == nil || *others[0].Rank != 0 || int(others[0].PID) != fleet[0].PID {
		t.Errorf("not selected: %+v", others)
	}
	one, err := filter.New([]filter.Setting{{Name: filter.Rank, Value: "1"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := report.Make(whole.Trace, report.Options{Filter: one})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.PerProcess) != 1 || int(r.PerProcess[0].PID) != fleet[1].PID {
		t.Fatalf("processes in the report: %+v", r.PerProcess)
	}
	tr := harness.ReadTraceOf(t, whole.Trace, fleet[1].PID)
	if n := int64(len(tr.Dispatches)); r.Coverage.Timed != n || r.PerProcess[0].Dispatches != n || r.Coverage.Filtered != 0 {
		t.Errorf("%+v, the trace has %d dispatches of that rank", r.Coverage, n)
	}
}
