package truth

import (
	"fmt"
	"maps"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// hipPlaces is how many slots of HIP's table testdata/workloads/hip_table_tool.h takes.
const hipPlaces = 4

// tableTool is a process with a tool that takes slots of HIP's dispatch table.
type tableTool struct {
	*called
	runs []harness.Run
}

// startTableTool skips the test if HIP has no table.
func startTableTool(t *testing.T) *tableTool {
	t.Helper()
	needCalls(t)
	p := start(t, "--pace", "300")
	if p.got {
		testenv.Skip(t, "HIP before 6.0 has no dispatch table (RTL_RUNTIME=sid)")
	}
	return &tableTool{called: p}
}

// tell sends a command, and returns how many calls each place has got, and how many slots have the tool's functions.
func (p *tableTool) tell(t *testing.T, command string) (calls [hipPlaces]int, slots int) {
	t.Helper()
	said := p.ask(t, "/hip-tool/"+command)
	if _, err := fmt.Sscan(said, &calls[0], &calls[1], &calls[2], &calls[3], &slots); err != nil {
		t.Fatalf("%s: %q: %v", command, said, err)
	}
	return calls, slots
}

// passes waits until calls have gone through each of the tool's functions; what has slots of the table is as expected.
func (p *tableTool) passes(t *testing.T, slots int) {
	t.Helper()
	from, now := p.tell(t, "calls")
	if now != slots {
		t.Errorf("the tool's functions are in %d slots, expected %d", now, slots)
	}
	harness.Until(t, "the tool gets all calls", func() bool {
		calls, _ := p.tell(t, "calls")
		for i := range calls {
			if calls[i] < from[i]+20 {
				return false
			}
		}
		return true
	})
}

// session makes a recording, and does something in the middle of it.
func (p *tableTool) session(t *testing.T, something func()) {
	t.Helper()
	r, _ := p.begin(t)
	harness.Until(t, "it calls", p.Dispatches(t, 2000))
	something()
	harness.Until(t, "it calls", p.Dispatches(t, 2000))
	r.Interrupt(t)
	p.runs = append(p.runs, r.MustRecord(t))
}

// points fails unless so many places more than in dormant point to the payload.
func (p *tableTool) points(t *testing.T, more int) {
	t.Helper()
	if now, then := p.Data(t).Places(), p.dormant.Places(); len(now) != len(then)+more {
		t.Errorf("%d places point to the payload, expected %d and %d", len(now), len(then), more)
	}
}

// finish compares all: each call is recorded once, or counted as lost.
func (p *tableTool) finish(t *testing.T) {
	t.Helper()
	if now := p.Data(t).Places(); !maps.Equal(now, p.dormant.Places()) {
		t.Errorf("%d places point to the payload, before %d did", len(now), len(p.dormant.Places()))
	}
	p.compare(t, p.runs...).MustHaveRecorded(100, "hipGetDevice", "hipModuleLaunchKernel", "hipStreamSynchronize", "hipMalloc")
}

// Another tool takes slots of HIP's table above ours, in a session: a detach does not restore them, calls pass through
// both, a later session records them through that tool, and each call once. The tool leaves in a session, or between two.
func TestHIPTableTakenAfter(t *testing.T) {
	t.Parallel()
	p := startTableTool(t)
	p.session(t, func() {})
	p.dormant = p.Data(t)
	for _, inSession := range []bool{true, false} {
		p.session(t, func() {
			p.tell(t, "enter")
			p.passes(t, hipPlaces)
		})
		p.passes(t, hipPlaces)
		p.points(t, 0) // the table has the tool's functions, which call ours
		p.session(t, func() { p.passes(t, hipPlaces) })
		p.passes(t, hipPlaces)
		if inSession {
			p.session(t, func() { p.tell(t, "leave") })
		} else {
			p.tell(t, "leave")
			p.points(t, hipPlaces) // it has put ours back: the next detach removes them
			harness.Until(t, "calls pass", p.Dispatches(t, 2000))
		}
		p.session(t, func() {})
		p.points(t, 0)
	}
	p.finish(t)
}

// Another tool has slots of HIP's table before us: ours are above, and a detach puts back the tool's functions.
func TestHIPTableTakenBefore(t *testing.T) {
	t.Parallel()
	p := startTableTool(t)
	p.tell(t, "enter")
	p.passes(t, hipPlaces)
	for i := range 3 {
		p.session(t, func() { p.passes(t, 0) })
		p.passes(t, hipPlaces)
		if i == 0 {
			p.dormant = p.Data(t)
		}
		p.points(t, 0)
	}
	p.tell(t, "leave")
	harness.Until(t, "calls pass", p.Dispatches(t, 2000))
	p.session(t, func() {})
	p.finish(t)
}
