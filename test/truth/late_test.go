package truth

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

// The process loads RCCL during a recording: that one says so, and has no calls of it. The next one has them.
func TestLibraryLoadedDuringRecording(t *testing.T) {
	t.Parallel()
	needRCCL(t)
	p := harness.Start(t, harness.RCCLCalls("--late", "1"))
	r := p.Begin(t, rcclCalls...)
	r.Says(t, "✓ attached")
	if _, err := p.Get("/load"); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "it calls RCCL", p.Dispatches(t, 2000))
	r.Interrupt(t)
	run := r.MustRecord(t)
	if c := coverageIn(t, run.Trace, "rccl-api"); c.way != calls.WayLate || c.functions != 0 {
		t.Errorf("the recording in which RCCL was loaded: %+v", c)
	}
	if tr := harness.ReadAPICalls(t, run.Trace); tr.Accounts["rccl-api"].Begun != 0 {
		t.Errorf("%+v", tr.Accounts)
	}
	if c := coverageIn(t, p.RecordUntil(t, 0, 1000, rcclCalls...).Trace, "rccl-api"); c.way != calls.WayTable && c.way != calls.WayGOT {
		t.Errorf("the next recording: %+v", c)
	}
	p.StillAlive(t)
}
