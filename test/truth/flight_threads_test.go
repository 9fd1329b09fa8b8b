package truth

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// A trigger's trace has the samples and waits of its span: each of them is what the threads say themselves.
func TestFlightThreads(t *testing.T) {
	testenv.NeedRoot(t)
	t.Parallel()
	p := harness.StartCold(t, harness.Threads())
	p.Ready(t)
	r := p.Begin(t, "--keep-last", "2s", "--sched", "--sample", "cpu:499")
	p.Active(t)
	harness.Until(t, "the threads make progress while attached", p.Dispatches(t, 60))
	harness.Tool(t, "trigger", strconv.Itoa(p.PID)).MustBe(t, failure.OK)
	harness.Until(t, "the threads make progress again", p.Dispatches(t, 60))
	harness.Tool(t, "trigger", strconv.Itoa(p.PID)).MustBe(t, failure.OK)
	r.Interrupt(t)
	r.Wait(t).MustBe(t, failure.NothingSeen) // the program dispatches nothing
	p.Quit(t)
	for number := 1; number <= 2; number++ {
		part, rows, log := harness.ReadPart(t, partOf(r, number)), harness.ReadThreads(t, partOf(r, number), 1), p.ThreadLog(t)
		if rows.Method != "bpf" {
			testenv.Skip(t, rows.Detail)
		}
		if !strings.Contains(rows.Detail, "waits shorter than") {
			t.Error(rows.Detail)
		}
		if rows.BegunNS < int64(part.FromNS) || rows.EndedNS > part.EndNS || rows.EndedNS-rows.BegunNS < int64(100*time.Millisecond) {
			t.Errorf("the threads' window is %d to %d, the session's %d to %d", rows.BegunNS, rows.EndedNS, part.FromNS, part.EndNS)
		}
		for _, e := range log { // short waits are not counted in such a trace
			if e.EndNS-e.BeginNS < int64(time.Millisecond) {
				rows.ShortWaits[e.TID]++
			}
		}
		t.Logf("trace %d: %v of threads, in a window of %v", number, time.Duration(rows.EndedNS-rows.BegunNS), time.Duration(part.EndNS-int64(part.FromNS)))
		compareWaits(t, rows, log)
		compareSamples(t, rows, log)
	}
}
