package truth

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/ranks"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/simlog"
)

// nearNS is how far the times of a trace are from the simulator's, at most.
const nearNS = 100

// rankTruth is what the log says of a recording's collectives.
type rankTruth struct {
	t       *testing.T
	ranks   int // in all
	window  traceread.Span
	clockNS int64
	all     []*harness.Collective
	kernels map[int][]*simlog.Record
}

// TestRanks: each collective of a trace is the simulator's, with its skew and its last rank; the verdict is the log's.
func TestRanks(t *testing.T) {
	late := []string{"--late-rank", "5", "--late", "3000", "--layers", "2", "--ahead", "8"}
	for _, one := range []struct {
		name  string
		inOne bool
		args  []string
	}{
		{"one process", true, late},
		{"one process balanced", true, []string{"--layers", "4", "--ahead", "4", "--vary", "100", "--second", "on"}},
		{"one process groups", true, append(slices.Clone(late), "--group", "4", "--skip-rank", "2")},
		{"processes", false, late},
		{"processes late by the host", false, []string{"--late-rank", "3", "--late", "20000", "--late-by", "host", "--layers", "2"}},
		{"processes balanced", false, []string{"--layers", "4", "--ahead", "4", "--vary", "100"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			p := harness.StartRanks(t, 8, one.inOne, one.args...)
			run := p.Record(t, time.Second)
			run.MustBe(t, failure.OK)
			truth := &rankTruth{t: t, ranks: 8}
			truth.all, truth.kernels = p.Truth(t)
			truth.check(run.Trace)
		})
	}
}

// check compares a trace with the log. It returns the report, and the collectives of all ranks that are in the trace.
func (tr *rankTruth) check(path string) (*report.Report, []*harness.Collective) {
	tr.t.Helper()
	r, err := report.Make(path, report.Options{Kernels: 1})
	if err != nil {
		tr.t.Fatal(err)
	}
	if r.Ranks == nil {
		tr.t.Fatal("no ranks in the report")
	}
	open, err := traceread.Open(tr.t.Context(), path)
	if err != nil {
		tr.t.Fatal(err)
	}
	defer open.Close()
	tr.window = traceread.Always
	if r.Common != nil {
		tr.window = traceread.Span{BeginNS: r.Common.StartNS, EndNS: r.Common.EndNS}
	}
	a, err := ranks.Find(tr.t.Context(), open, ranks.Options{Window: tr.window})
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.clockNS = a.ClockNS
	whole := tr.compare(a)
	tr.judge(r, whole)
	if r.Common == nil {
		tr.window = traceread.Span{BeginNS: open.Sessions[0].FromNS(), EndNS: open.Sessions[0].UntilNS()}
	}
	tr.uses(r, a, firstKernels(tr.t, open))
	text, err := json.Marshal(r.Ranks)
	if err != nil || len(r.Ranks.Servers) != 1 {
		tr.t.Fatalf("%s, %v", text, err)
	}
	tr.t.Log(r.Ranks.Servers[0].Verdict)
	return r, whole
}

// rank returns the simulator's number of a rank's GPU.
func (tr *rankTruth) rank(r *ranks.Rank) int {
	if r.Process.Rank != nil {
		return int(*r.Process.Rank)
	}
	return int(r.GPU)
}

// entry is one rank's kernel in the log.
type entry struct {
	startNS, endNS int64
	of             *harness.Collective
}

// byRank returns the log's kernels of each rank, in the order of starts.
func (tr *rankTruth) byRank() map[int][]entry {
	all := map[int][]entry{}
	for _, c := range tr.all {
		for _, e := range c.Entries {
			all[e.Rank] = append(all[e.Rank], entry{e.StartNS, e.EndNS, c})
		}
	}
	for _, entries := range all {
		slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.startNS, b.startNS) })
	}
	return all
}

// logged returns the collective of a rank's kernel in the log; nil: it is of none. Kernels of two streams may start within
// the tolerance of each other, so the nearest one by start and end counts.
func logged(entries []entry, k *ranks.Kernel) (c *harness.Collective) {
	at, _ := slices.BinarySearchFunc(entries, k.StartNS-nearNS, func(e entry, ns int64) int { return cmp.Compare(e.startNS, ns) })
	least := int64(math.MaxInt64)
	for _, e := range entries[at:] {
		if e.startNS > k.StartNS+nearNS {
			break
		}
		if d := max(e.startNS-k.StartNS, k.StartNS-e.startNS) + max(e.endNS-k.EndNS, k.EndNS-e.endNS); d < least {
			c, least = e.of, d
		}
	}
	return c
}

// compare compares each collective with the log, and returns those that are complete in the trace.
func (tr *rankTruth) compare(a *ranks.Analysis) (whole []*harness.Collective) {
	tr.t.Helper()
	byRank := tr.byRank()
	inTrace, found := map[*harness.Collective]int{}, map[int32]*harness.Collective{}
	for n, r := range a.Ranks {
		rank := tr.rank(r)
		_ = a.EachByStart(n, func(_ int64, k *ranks.Kernel) error {
			c := logged(byRank[rank], k)
			if c == nil {
				if k.Collective >= 0 && a.Collectives[k.Collective].Whole {
					tr.t.Errorf("rank %d: %+v is no collective in the log", rank, k)
				}
				return nil // entered by this rank alone
			}
			inTrace[c]++
			if k.Collective < 0 || !a.Collectives[k.Collective].Whole {
				return nil
			}
			if before := found[k.Collective]; before != nil && before != c {
				tr.t.Errorf("rank %d: %+v is not of the collective that others in it are of", rank, k)
			}
			found[k.Collective] = c
			return nil
		})
	}
	for i, c := range found {
		got, want := &a.Collectives[i], tr.times(c)
		if int(got.Kernels) != c.Ranks || far(got.SkewNS(), want.lastNS-want.firstNS) || far(got.LastNS, want.lastNS) || far(got.EndNS, want.endNS) {
			tr.t.Errorf("%+v, want %+v", got, want)
		}
		if a.Called(got) && tr.rank(a.Ranks[got.Last]) != want.last {
			tr.t.Errorf("%+v: rank %d was last by the log", got, want.last)
		}
	}
	for c, n := range inTrace {
		if n == c.Ranks {
			whole = append(whole, c)
		}
	}
	if missing := len(whole) - len(found); missing < 0 || int64(missing) > a.Ambiguous || len(whole) < 20 {
		tr.t.Errorf("%d collectives of all ranks are in the trace, %d were matched", len(whole), len(found))
	}
	tr.t.Logf("%d collectives of the log, %d in the trace, %d of all ranks, %d matched; %d kernels may be of several groups", len(tr.all), len(inTrace), len(whole), len(found), a.Ambiguous)
	return whole
}

// entered is the times of a collective in the log.
type entered struct {
	firstNS, prevNS, lastNS, endNS int64
	last                           int
	lateNS                         float64 // the others waited so long, on average
}

func (tr *rankTruth) times(c *harness.Collective) (e entered) {
	entries := slices.Clone(c.Entries)
	slices.SortFunc(entries, func(a, b harness.Entry) int { return int(a.StartNS - b.StartNS) })
	n := len(entries)
	e = entered{firstNS: entries[0].StartNS, prevNS: entries[n-2].StartNS, lastNS: entries[n-1].StartNS, endNS: entries[0].EndNS, last: entries[n-1].Rank}
	for _, one := range entries[:n-1] {
		e.lateNS += float64(e.lastNS-one.StartNS) / float64(n-1)
	}
	return e
}

func far(a, b int64) bool { return a-b > 2*nearNS || b-a > 2*nearNS }

// judge compares the verdict with the one of the log: which rank was last more often than by chance, and caused half of the waiting.
func (tr *rankTruth) judge(r *report.Report, whole []*harness.Collective) {
	tr.t.Helper()
	counts, waits := map[int]float64{}, map[int]float64{}
	called, all, group := 0.0, 0.0, 0
	for _, c := range whole {
		e := tr.times(c)
		// A skew at the border may be on either side.
		if d := e.lastNS - e.prevNS - tr.clockNS; d > 0 && (c.Ranks == tr.ranks || tr.groupOf(c) == 1) {
			counts[e.last]++
			waits[e.last] += e.lateNS
			called++
			all += e.lateNS
		}
		group = c.Ranks
	}
	want := -1
	p := 1 / float64(group)
	for rank, n := range counts {
		if called >= 20 && n >= called*p+4*math.Sqrt(called*p*(1-p)) && waits[rank] >= all/2 {
			want = rank
		}
	}
	late := -1
	if v := r.Ranks.Servers[0]; v.Late != nil {
		one := r.Ranks.Ranks[*v.Late]
		if late = int(one.GPU); one.Rank != nil {
			late = int(*one.Rank)
		}
	}
	tr.t.Logf("late by the log: %d of %v", want, counts)
	if !r.Ranks.Servers[0].Known && r.Ranks.Ambiguous > 0 {
		return // it abstains, and says why
	}
	if late != want {
		tr.t.Errorf("rank %d is late, by the log %d (last %v, waits %v): %s", late, want, counts, waits, r.Ranks.Servers[0].Verdict)
	}
}

// groupOf returns 1 for the second four of eight ranks, which have the late one.
func (tr *rankTruth) groupOf(c *harness.Collective) int { return c.Entries[0].Rank / c.Ranks }

// firstKernels returns the start of the first kernel of each GPU in a trace: what was queued before the recording is not in it.
func firstKernels(t *testing.T, open *traceread.Trace) map[int64]int64 {
	t.Helper()
	first := map[int64]int64{}
	err := open.Each(t.Context(), func(r traceread.Row) error {
		var gpu, startNS int64
		err := r.Scan(&gpu, &startNS)
		first[gpu] = startNS
		return err
	}, `SELECT a.gpu_id, min(d.start_ns) FROM rtl_dispatch d JOIN rtl_queue q ON q.id = d.queue_id JOIN rtl_agent a ON a.id = q.agent_id GROUP BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// uses compares the uses of each GPU's time with the log's kernels.
func (tr *rankTruth) uses(r *report.Report, a *ranks.Analysis, first map[int64]int64) {
	tr.t.Helper()
	for _, use := range r.Ranks.GPUs {
		i := slices.IndexFunc(r.GPUs, func(g report.GPU) bool { return g.ID == use.GPU })
		if i < 0 || !r.GPUs[i].Coverage.Complete {
			continue // some have no times
		}
		n := slices.IndexFunc(r.Ranks.Ranks, func(one ranks.RankResult) bool { return one.GPU == use.GPU })
		rank := tr.rank(a.Ranks[n])
		var computeNS, collectiveNS int64
		for _, k := range tr.kernels[rank] {
			if int64(k.StartNS) < first[use.GPU]-nearNS {
				continue
			}
			ns := tr.window.Within(int64(k.StartNS), int64(k.EndNS))
			if strings.Contains(k.Name, "nccl") || strings.Contains(k.Name, "cross_device") {
				collectiveNS += ns
			} else {
				computeNS += ns
			}
		}
		slack := int64(len(tr.kernels[rank]))*nearNS + 1000
		got := use.TransferNS + use.WaitNS + use.UnmatchedNS
		// On a second queue collectives overlap: then each time counts once.
		if d := use.ComputeNS - computeNS; max(d, -d) > slack || got > collectiveNS+slack {
			tr.t.Errorf("GPU %d: %+v, by the log %d ns of compute, %d ns of collectives", use.GPU, use, computeNS, collectiveNS)
		}
		if use.ComputeNS+got+use.CopyNS+use.IdleNS > use.RecordedNS+slack {
			tr.t.Errorf("%+v", use)
		}
	}
}
