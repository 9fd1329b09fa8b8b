package harness

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/test/simlog"
)

// MustBeCompleteUntil checks what a trace without an end says of itself: every kernel of its
// windows that had ended by then is in it, or untimed. (The simulator may be preempted between
// a kernel's end and the write that shows it.) It is called after Add. It returns how many
// kernels that were.
func (c *Comparison) MustBeCompleteUntil(t testing.TB, tr *Trace) (kernels int) {
	t.Helper()
	until := map[int64]int64{}
	for _, s := range tr.Sessions {
		until[s.ID] = s.UntilNS
	}
	for _, w := range tr.Windows {
		q := tr.Queues[w.Queue]
		for i, r := range c.log.Queues[q.Key] {
			if r.Kind != simlog.Kernel || r.Packet < w.First || int64(r.EndNS)+settleNS >= until[q.Session] {
				continue
			}
			if kernels++; c.said[q.Key][i] == unsaid {
				t.Errorf("ended %d ns before the trace is said to be complete, and is not in it: %v", until[q.Session]-int64(r.EndNS), r)
			}
		}
	}
	return kernels
}
