package truth

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

// places are the slots that testdata/workloads/other_tool.cpp takes.
const places = 7

// tell sends a command to the other tool in the workload, and fails without an answer.
func tell(t *testing.T, p *harness.Process, what string) {
	t.Helper()
	if _, err := p.Get("/tool/" + what); err != nil {
		t.Fatalf("other tool: %s: %v\n%s", what, err, p.Output())
	}
}

// during makes a recording, and sends a command to the other tool in the middle of it.
func during(t *testing.T, p *harness.Process, what string, args ...string) harness.Run {
	t.Helper()
	r := p.Begin(t, args...)
	p.Active(t)
	tell(t, p, what)
	harness.Until(t, "it dispatches under the other tool", p.Dispatches(t, 3000))
	r.Interrupt(t)
	return r.MustRecord(t)
}

// hooks checks the remaining hooks, and that the program continues to work with them.
func hooks(t *testing.T, p *harness.Process, buried uint32) {
	t.Helper()
	st := p.Status(t)
	if st.State != "dormant" || st.Inventory.HooksPatched != 0 || st.Inventory.HooksBuried != buried {
		t.Errorf("state %s, %d hooks patched, %d buried, expected %d", st.State, st.Inventory.HooksPatched, st.Inventory.HooksBuried, buried)
	}
	harness.Until(t, "the program goes on", p.Dispatches(t, 2000))
	p.StillAlive(t)
}

// Another tool patches the table after the payload: the payload's hooks stay in its chain, pass calls
// through, record again, and are removed after that tool has left.
func TestBuriedHooks(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Stress(8, 2, 64, "--pace", "300"))
	slots := p.Slots(t)
	changed := func(want bool) {
		t.Helper()
		if names := p.Slots(t).Differ(slots); (len(names) > 0) != want {
			t.Errorf("slots that differ from the first: %v", names)
		}
	}

	runs := []harness.Run{during(t, p, "enter")}
	hooks(t, p, places)
	above := p.Slots(t)
	runs = append(runs, p.RecordUntil(t, time.Second, 1000)) // through the other tool
	hooks(t, p, places)
	if names := p.Slots(t).Differ(above); len(names) > 0 {
		t.Errorf("the other tool's slots have changed: %v", names)
	}

	runs = append(runs, during(t, p, "leave"))
	hooks(t, p, 0)
	changed(false)

	// The other tool leaves between two sessions: it restores the payload's hooks, which stay until
	// the next detach.
	runs = append(runs, during(t, p, "enter"))
	tell(t, p, "leave")
	hooks(t, p, places)
	changed(true)
	runs = append(runs, p.RecordUntil(t, time.Second, 1000))
	hooks(t, p, 0)
	changed(false)

	runs = append(runs, during(t, p, "enter"))
	tell(t, p, "leave")
	harness.Tool(t, "detach", strconv.Itoa(p.PID)).MustBe(t, failure.OK)
	hooks(t, p, 0)
	changed(false)
	for i, run := range runs {
		if run.Summary.Coverage.Timed < 100 {
			t.Errorf("recording %d: %d dispatches timed", i, run.Summary.Coverage.Timed)
		}
	}
	check(t, p, p.TIDs(), runs...)
}

// The hooks of calls that another tool has patched above stay in its chain. A session that does not want
// these functions records none of their calls; one that wants them has them, through the other tool.
func TestBuriedCalls(t *testing.T) {
	t.Parallel()
	needCalls(t)
	const stores = "hsa_signal_store_relaxed,hsa_signal_store_screlease"
	p := harness.Start(t, harness.Stress(8, 2, 64, "--pace", "300"))
	slots := p.Slots(t)
	storesIn := func(run harness.Run) (n int) {
		for _, c := range harness.ReadAPICalls(t, run.Trace).Calls {
			if strings.HasPrefix(c.Function, "hsa_signal_store_") {
				n++
			}
		}
		return n
	}

	runs := []harness.Run{during(t, p, "enter", "--operations", stores)}
	if n := storesIn(runs[0]); n == 0 {
		t.Error("the first session has no stores")
	}
	for _, c := range []struct {
		args   []string
		stores bool
	}{
		{[]string{"--hsa-core-trace"}, false},
		{[]string{"--operations", stores}, true},
		{[]string{"--operations", "hsa_signal_create,hsa_signal_destroy"}, false},
		{nil, false},
	} {
		run := p.RecordUntil(t, 100*time.Millisecond, 1000, c.args...)
		if n := storesIn(run); (n > 0) != c.stores {
			t.Errorf("%v: %d stores are recorded", c.args, n)
		}
		runs = append(runs, run)
	}
	runs = append(runs, during(t, p, "leave", "--hsa-core-trace"))
	if n := storesIn(runs[len(runs)-1]); n > 0 {
		t.Errorf("while the other tool leaves: %d stores are recorded", n)
	}
	if names := p.Slots(t).Differ(slots); len(names) > 0 {
		t.Errorf("slots that differ from the first: %v", names)
	}
	check(t, p, p.TIDs(), runs...)
}
