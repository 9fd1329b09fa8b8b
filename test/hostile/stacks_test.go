package hostile

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestStacks: threads are sampled whose stacks lie, in code whose unwind tables change all the time.
func TestStacks(t *testing.T) {
	v := victim.Start(t, "hostile", "stacks")
	r := attack(t, v.PID, "--sample", "cpu:999", "--sched")
	r.end(t, 0)
	rows := harness.ReadThreads(t, r.Trace, 1)
	if rows.Method == "bpf" && len(rows.Samples) == 0 {
		t.Errorf("no sample: %s", rows.Detail)
	}
	t.Logf("%d samples by %s", len(rows.Samples), rows.Method)
	shown := tool(t, "report", r.Trace, "--gaps=3")
	shown.end(t, 0)
}
