package truth

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// leastTransitions are how many transitions the long form of each test of another tool makes (docs/measured.md).
const leastTransitions = 200

// transitions checks and prints how often the tables changed hands in a test.
func transitions(t *testing.T, n int) {
	t.Helper()
	t.Logf("%d transitions", n)
	if testenv.Times(0, 1) == 1 && n < leastTransitions {
		t.Errorf("the long form has %d at least", leastTransitions)
	}
}

// otherTool is a process with a tool that passes calls on in some slots of the runtime's table.
type otherTool struct {
	*harness.Process
	runs     []harness.Run
	entered  bool
	switches int
}

// toggle has the tool enter or leave n times, each time under load.
func (x *otherTool) toggle(t *testing.T, n int) {
	t.Helper()
	for range n {
		x.entered = !x.entered
		tell(t, x.Process, map[bool]string{true: "enter", false: "leave"}[x.entered])
		x.switches++
		harness.Until(t, "it dispatches", x.Dispatches(t, 300))
	}
}

// session makes a recording, in which the tool changes until it is there or not.
func (x *otherTool) session(t *testing.T, entered bool) {
	t.Helper()
	r := x.Begin(t)
	x.Active(t)
	n := 4
	if x.entered != entered {
		n++
	}
	x.toggle(t, n)
	r.Interrupt(t)
	x.runs = append(x.runs, r.MustRecord(t))
}

func (x *otherTool) compare(t *testing.T) {
	t.Helper()
	check(t, x.Process, x.TIDs(), x.runs...).MustHaveRecorded(100)
	transitions(t, x.switches)
}

// TestOtherToolBefore: the runtime loads the tool before the payload. It leaves and enters between sessions only: a
// tool that leaves from below takes the hooks above it with it (docs/decisions/0031).
func TestOtherToolBefore(t *testing.T) {
	t.Parallel()
	w := harness.Stress(4, 2, 64, "--pace", "200")
	w.Sim = append(w.Sim, "HSA_TOOLS_LIB="+harness.WorkloadFile(t, "other_tool.so"))
	x := &otherTool{Process: harness.Start(t, w), entered: true}
	alone := x.Slots(t)
	for range testenv.Times(3, 40) {
		x.runs = append(x.runs, x.RecordUntil(t, 50*time.Millisecond, 1000))
		x.toggle(t, 5)
	}
	if !x.entered {
		x.toggle(t, 1)
	}
	if names := x.Slots(t).Differ(alone); len(names) > 0 {
		t.Errorf("slots that differ from the first: %v", names)
	}
	x.compare(t)
}

// TestOtherToolAfter: the tool enters the table after our hooks, leaves and enters again, within sessions and
// between them. Each session but the last leaves it there: entering without our hooks in the table, it would be below.
func TestOtherToolAfter(t *testing.T) {
	t.Parallel()
	x := &otherTool{Process: harness.Start(t, harness.Stress(4, 2, 64, "--pace", "200"))}
	alone := x.Slots(t)
	for range testenv.Times(3, 40) {
		x.session(t, true)
		hooks(t, x.Process, places)
		x.toggle(t, rand.IntN(4))
	}
	x.session(t, false)
	hooks(t, x.Process, 0)
	if names := x.Slots(t).Differ(alone); len(names) > 0 {
		t.Errorf("slots that differ from the first: %v", names)
	}
	x.compare(t)
}
