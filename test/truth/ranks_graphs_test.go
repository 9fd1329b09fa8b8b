package truth

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

// graphRanks are ranks that replay graphs with collectives of two kinds; each fourth step has none of them.
var graphRanks = []string{"--graphs", "2", "--layers", "3", "--ahead", "8"}

// TestRanksGraphs is TestRanks of collectives in graphs' replays, and of some between them, with the rank that was made late and what
// it did instead. Only in one of the recordings HIP's calls are known.
func TestRanksGraphs(t *testing.T) {
	late := []string{"--late-rank", "2", "--late", "3000"}
	for _, one := range []struct {
		name   string
		inOne  bool
		args   []string
		record []string
		late   int // the rank that is made late; -1: none is
		reason string
	}{
		{"one process", true, late, nil, 2, "vllm::topk_softmax_kernel"},
		{"one process calls", true, late, lossless, 2, "vllm::topk_softmax_kernel"},
		{"one process balanced", true, []string{"--vary", "100"}, nil, -1, ""},
		{"one process unequal", true, append(slices.Clone(late), "--skip-rank", "1"), nil, 2, "vllm::topk_softmax_kernel"},
		{"processes", false, late, nil, 2, "vllm::topk_softmax_kernel"},
		{"processes late by the host", false, append(slices.Clone(late), "--late-by", "host", "--ahead", "1"), nil, 2, ""},
	} {
		t.Run(one.name, func(t *testing.T) {
			p := harness.StartRanks(t, 4, one.inOne, slices.Concat(graphRanks, one.args)...)
			run := p.Record(t, time.Second, one.record...)
			run.MustBe(t, failure.OK)
			truth := &rankTruth{t: t, ranks: 4}
			truth.all, truth.kernels = p.Truth(t)
			r, whole := truth.check(run.Trace)
			mustMixReplays(t, whole)
			if one.late >= 0 {
				truth.mustBeLate(r, one.late, one.reason)
			}
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

// mustBeLate: the verdict names the rank, and what its GPU did most of the time in which the others waited for it; "": it was idle.
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
	if rank != late {
		tr.t.Errorf("rank %d is late, not %d: %s", rank, late, v.Verdict)
	}
	if len(one.Instead) == 0 || reason == "" && one.Instead[0].What != "idle" || !strings.Contains(one.Instead[0].Name, reason) || !strings.Contains(v.Verdict, reason) {
		tr.t.Errorf("it does not say that it ran %q: %s: %+v", reason, v.Verdict, one.Instead)
	}
}
