package truth

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// Windows of a schedule begin and end while another tool with a write index of its own is switched on and off: below us (the
// runtime has loaded it), and above us (it has patched the table in a session of ours).
func TestIndexToolWindows(t *testing.T) {
	for _, order := range []string{"below", "above"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			w := harness.Stress(4, 2, 64, "--pace", "200")
			if order == "below" {
				w.Sim = append(w.Sim, "HSA_TOOLS_LIB="+harness.WorkloadFile(t, "index_tool.so"))
			}
			x := &indexed{Process: harness.Start(t, w)}
			if order == "above" {
				x.session(t, func() { x.ask(t, "enter") })
			}
			windows := testenv.Times(15, 400)
			var run harness.Run
			harness.Until(t, "windows are recorded", func() bool { // on a busy machine all may be over before they begin
				run = x.windows(t, windows)
				return run.Code == failure.OK && run.Summary.Coverage.Timed >= 100
			})
			x.runs = append(x.runs, run)
			recorded := harness.CheckPeriods(t, harness.ReadPeriods(t, run.Trace))
			x.compare(t, order == "below")
			t.Logf("%d of %d windows recorded", recorded, windows)
			transitions(t, int(x.switches))
		})
	}
}

// windows makes a recording of windows, and switches the other tool meanwhile.
func (x *indexed) windows(t *testing.T, n int) harness.Run {
	t.Helper()
	r := x.Begin(t, inPeriods(15, 25, n)...)
	r.Drains(t)
	for x.Status(t).State != "dormant" {
		x.switchOften(t, 2)
	}
	run := r.Wait(t)
	if run.Code == failure.NothingSeen {
		return run
	}
	run.MustBe(t, failure.OK)
	if err := run.Decode(); err != nil {
		t.Fatal(err)
	}
	return run
}
