package harness

import (
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/simlog"
)

// Packets returns the packets that the GPUs executed for a workload that has ended, also those of the runtime's own
// queues.
func (p *Process) Packets(t testing.TB) (all []*simlog.Record) {
	t.Helper()
	if err := simlog.Wait(p.log); err != nil {
		t.Fatal(err)
	}
	for r, err := range simlog.All(p.log) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Queue != 0 && r.Kind != simlog.Violation {
			all = append(all, r)
		}
	}
	return all
}

// Throttle makes the producers of hsastress rest for the greater part of the time, until the recording has detached.
func (p *Process) Throttle(t testing.TB, until *Command) {
	t.Helper()
	const turn = 10 * time.Millisecond
	tick := time.NewTicker(turn)
	defer tick.Stop()
	for n := 0; !until.HasEnded() && !until.HasSaid("✓ detached"); n++ {
		switch n % 4 {
		case 0:
			_, _ = p.Get("/pause")
		case 3:
			_, _ = p.Get("/resume")
		}
		<-tick.C
	}
	_, _ = p.Get("/resume")
}
