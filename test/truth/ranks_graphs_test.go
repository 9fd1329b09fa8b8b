package truth

import (
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

// graphRanks are ranks that replay graphs with collectives of two kinds; each fourth step has none of them.
var graphRanks = []string{"--graphs", "2", "--layers", "2"}

// TestRanksGraphs is TestRanks of collectives in graphs' replays, and of some between them, with the rank that was made late and what
// it did instead. Only in one of the recordings HIP's calls are known. The delay is long compared with those of a busy machine.
func TestRanksGraphs(t *testing.T) {
	const late, computed, idle = 2, "ran vllm::topk_softmax_kernel (", "was idle: "
	byGPU := []string{"--late-rank", "2", "--late", "10000", "--ahead", "4"}
	for _, one := range []struct {
		name   string
		inOne  bool
		args   []string
		record []string
		reason string
	}{
		{"one process calls", true, byGPU, lossless, computed},
		{"one process unequal", true, append(slices.Clone(byGPU), "--skip-rank", "1"), nil, computed},
		{"processes", false, byGPU, nil, computed},
		{"processes late by the host", false, []string{"--late-rank", "2", "--late", "20000", "--late-by", "host"}, nil, idle},
	} {
		t.Run(one.name, func(t *testing.T) {
			p := harness.StartRanks(t, 4, one.inOne, slices.Concat(graphRanks, one.args)...)
			r := p.Begin(t, one.record...)
			r.Says(t, "✓ attached")
			harness.Until(t, "each rank has entered enough collectives", p.EachDispatches(t, 300)) // 2 or 3 collectives in 5 or 7 kernels of a step
			r.Interrupt(t)
			run := r.MustRecord(t)
			truth := &rankTruth{t: t, ranks: 4}
			truth.all, truth.kernels = p.Truth(t)
			result, whole := truth.check(run.Trace)
			mustMixReplays(t, whole)
			truth.mustBeLate(result, late, one.reason)
		})
	}
}

// mustMixReplays: there are collectives of graphs' replays and others.
func mustMixReplays(t *testing.T, whole []*harness.Collective) {
	t.Helper()
	replayed := 0
	for _, c := range whole {
		isReplay := func(e harness.Entry) bool { return e.ID == 0 }
		switch {
		case !slices.ContainsFunc(c.Entries, isReplay):
		case slices.ContainsFunc(c.Entries, func(e harness.Entry) bool { return !isReplay(e) }):
			t.Fatalf("%+v is a replay's on some ranks only", c)
		default:
			replayed++
		}
	}
	if t.Logf("%d of %d collectives are of replays", replayed, len(whole)); replayed < 20 || len(whole)-replayed < 5 {
		t.Errorf("%d of %d collectives are of replays", replayed, len(whole))
	}
}

// mustBeLate: the verdict names the rank, and what its GPU did while the others waited for it.
func (tr *rankTruth) mustBeLate(r *report.Report, late int, reason string) {
	tr.t.Helper()
	v := &r.Ranks.Servers[0]
	if v.Late == nil {
		tr.t.Fatalf("no rank is late, not %d: %s", late, v.Verdict)
	}
	one := &r.Ranks.Ranks[*v.Late]
	rank := int(one.GPU)
	if one.Rank != nil {
		rank = int(*one.Rank)
	}
	if rank != late || !strings.Contains(v.Verdict, reason) {
		tr.t.Errorf("rank %d is late, not %d that %s: %s", rank, late, reason, v.Verdict)
	}
}
