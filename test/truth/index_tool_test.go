package truth

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// TestIndexTool: another tool keeps a write index of its own for each queue, and is switched on and off all the
// time: within sessions, between them, and while they begin and end. The runtime loads it before the payload;
// or it patches the table after our hooks, or between two sessions.
func TestIndexTool(t *testing.T) {
	for _, c := range []struct {
		name  string
		first bool // the runtime loads it
		enter func(t *testing.T, x *indexed)
	}{
		{"before", true, func(*testing.T, *indexed) {}},
		{"after", false, func(t *testing.T, x *indexed) {
			x.session(t, func() { x.ask(t, "enter") })
		}},
		{"between", false, func(t *testing.T, x *indexed) {
			x.session(t, func() {})
			x.ask(t, "enter")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := harness.Stress(8, 3, 64, "--pace", "200")
			if c.first {
				w.Sim = append(w.Sim, "HSA_TOOLS_LIB="+harness.WorkloadFile(t, "index_tool.so"))
			}
			x := &indexed{Process: harness.Start(t, w)}
			c.enter(t, x)
			for range testenv.Times(5, 40) {
				x.switchOften(t, rand.IntN(4))
				x.session(t, func() { x.switchOften(t, 20) })
			}
			// Its publisher claims slots in the producers' place if it is above us.
			x.compare(t, c.name != "after")
			t.Logf("%d sessions", len(x.runs))
			transitions(t, int(x.switches))
			if x.switches < 100 {
				t.Error("too few")
			}
		})
	}
}

// indexed is a process with such a tool, and its recordings.
type indexed struct {
	*harness.Process
	runs     []harness.Run
	on       bool
	switches uint64
}

// ask sends a command to the tool, and returns how often queues were switched.
func (x *indexed) ask(t *testing.T, command string) (n uint64) {
	t.Helper()
	text, err := x.Get("/index-tool/" + command)
	if err == nil {
		_, err = fmt.Sscan(text, &n)
	}
	if err != nil {
		t.Fatalf("index tool: %s: %v\n%s", command, err, x.Output())
	}
	return n
}

// switchOften switches the tool n times. Queues follow at their next use; what still follows the switch before may
// be all that is to follow, so that dispatches count, too.
func (x *indexed) switchOften(t *testing.T, n int) {
	t.Helper()
	for range n {
		x.on = !x.on
		before := x.ask(t, "switches")
		x.ask(t, map[bool]string{true: "on", false: "off"}[x.on])
		used := x.Dispatches(t, 500)
		harness.Until(t, "a queue is switched, or all were used", func() bool {
			x.switches = x.ask(t, "switches")
			return x.switches > before || used()
		})
	}
}

// session makes a recording, and does something in the middle of it.
func (x *indexed) session(t *testing.T, something func()) {
	t.Helper()
	r := x.Begin(t)
	x.Active(t)
	something()
	harness.Until(t, "it dispatches", x.Dispatches(t, 1000))
	r.Interrupt(t)
	x.runs = append(x.runs, r.MustRecord(t))
}

func (x *indexed) compare(t *testing.T, producers bool) {
	t.Helper()
	threads := x.TIDs()
	counts := x.Quit(t)
	log := x.Truth(t)
	log.MustHoldOnce(t, counts)
	c := harness.Compare(t, log)
	c.Producers = producers
	for _, run := range x.runs {
		tr := harness.ReadTrace(t, run.Trace)
		c.Add(tr)
		c.Summary(run, tr)
		if run.Summary.Coverage.Timed < 100 {
			t.Errorf("%d dispatches timed", run.Summary.Coverage.Timed)
		}
	}
	c.Finish(threads)
}
