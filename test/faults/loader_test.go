package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

// A thread stays in a callback of dl_iterate_phdr, for which an arming has to wait: the tool gives up, and
// the target goes on. When the thread has left, nothing of the arming remains.
func TestLoaderHeld(t *testing.T) {
	t.Parallel() // it waits for most of the time
	calls := []string{"--hip-trace", "--hsa-trace", "--buffer-policy", "lossless"}
	ask := func(p *harness.Process, request string) {
		t.Helper()
		if _, err := p.Get(request); err != nil {
			t.Fatalf("%s: %v", request, err)
		}
	}
	p := harness.Start(t, harness.HIPCalls("--pace", "4000"))
	p.RecordShortly(t, 100*time.Millisecond, calls...)
	before, slots, dormant, got := p.Snapshot(t), p.Slots(t), p.Data(t), p.HIPByGOT(t)
	ask(p, "/hold")
	run := p.TryRecord(t, 100*time.Millisecond, calls...)
	run.MustBe(t, failure.Failed)
	if !strings.Contains(run.Stderr, "a thread of the target holds (the dynamic linker's, say)") {
		t.Errorf("the tool says: %s", run.Stderr)
	}
	harness.Until(t, "the target goes on", p.Dispatches(t, 500))
	ask(p, "/let-go")
	harness.Until(t, "the payload is dormant", func() bool { return p.Status(t).State == "dormant" })
	p.NothingLeft(t, before)
	if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
		t.Errorf("slots changed: %v", changed)
	}
	if now := p.Data(t).Places(); len(now) != len(dormant.Places()) {
		t.Errorf("%d places point to the payload, before %d did", len(now), len(dormant.Places()))
	}
	last := p.RecordUntil(t, 100*time.Millisecond, 2500, calls...) // calls: one in 30 is hipGetDevice
	p.StillAlive(t)
	harness.Check(t, p, nil, last)
	harness.CompareAPICalls(t, p, got, last).MustHaveRecorded(20, "hipGetDevice")
}
