package truth

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/ranks"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// A rank is late because its thread sleeps, or because it computes: the report says which, as text and as JSON.
func TestRanksReason(t *testing.T) {
	testenv.NeedRoot(t)
	const late = 2
	for _, one := range []struct{ by, graphs, reason, in string }{
		{"host", "0", "slept in fetch_batch", "fetch_batch"},
		{"cpu", "0", "was running prepare_batch", "prepare_batch"},
		{"host", "2", "slept in fetch_batch", "fetch_batch"},
	} {
		t.Run(one.by+" graphs "+one.graphs, func(t *testing.T) {
			p := harness.StartRanks(t, 4, false, "--late-rank", "2", "--late", "20000", "--late-by", one.by, "--layers", "1", "--graphs", one.graphs)
			r := p.Begin(t, "--sched", "--sample", "cpu:199")
			r.Says(t, "✓ attached")
			harness.Until(t, "each rank has entered enough collectives", p.EachDispatches(t, 160)) // a kernel and a collective in a step
			r.Interrupt(t)
			run := r.MustRecord(t)
			p.Truth(t)
			if rows := harness.ReadThreads(t, run.Trace, 1); rows.Method != "bpf" {
				testenv.Skip(t, rows.Detail)
			}
			checkReasonText(t, run.Trace, late, one.reason, " was ready to run "+one.in)
			checkReason(t, run.Trace, late, one.reason)
		})
	}
}

// checkReasonText looks for the rank and the reason in the verdict's line. That names what took longest: on a busy machine, that the thread had no
// processor in the same function.
func checkReasonText(t *testing.T, trace string, late int64, reason, busy string) {
	t.Helper()
	run := harness.Tool(t, "report", trace)
	run.MustBe(t, failure.OK)
	for line := range strings.Lines(run.Stdout) {
		if !strings.HasPrefix(line, "Ranks ") {
			continue
		}
		t.Log(strings.TrimSpace(line))
		if !strings.Contains(line, fmt.Sprintf("(rank %d, ", late)) || !strings.Contains(line, " is late: ") || !strings.Contains(line, reason) && !strings.Contains(line, busy) {
			t.Errorf("it does not say that rank %d is late and %s", late, reason)
		}
		return
	}
	t.Errorf("no verdict about ranks in\n%s", run.Stdout)
}

// checkReason looks for them in report --json.
func checkReason(t *testing.T, trace string, late int64, reason string) {
	t.Helper()
	run := harness.Tool(t, "report", "--json", trace)
	run.MustBe(t, failure.OK)
	var r struct{ Ranks *ranks.Result }
	if err := json.Unmarshal([]byte(run.Stdout), &r); err != nil || r.Ranks == nil || len(r.Ranks.Servers) != 1 || r.Ranks.Servers[0].Late == nil {
		t.Fatalf("no late rank: %v, %+v", err, r.Ranks)
	}
	one := &r.Ranks.Ranks[*r.Ranks.Servers[0].Late]
	if one.Rank == nil || *one.Rank != late {
		t.Fatalf("%+v is late, not rank %d", one, late)
	}
	i := slices.IndexFunc(one.Instead, func(in ranks.Instead) bool { return strings.Contains(in.Name, reason) })
	if i < 0 {
		t.Fatalf("rank %d: none %s: %+v", late, reason, one.Instead)
	}
	in := &one.Instead[i]
	if in.What != "idle" || in.NS <= 0 || in.Thread == nil || in.Thread.PID != one.PID || in.Thread.TID == 0 || !strings.Contains(in.Name, fmt.Sprintf("thread %d ", in.Thread.TID)) {
		t.Errorf("%+v, thread %+v, of pid %d", in, in.Thread, one.PID)
	}
}
