package report

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/whyidle"
)

// A waker is named if it ended half of a cause's time, and what it did if that was half of this.
func TestWakerHasHalf(t *testing.T) {
	by, other := whyidle.Waker{PID: 7, TID: 8}, whyidle.Waker{PID: 9, TID: 9}
	running, ready := whyidle.Meanwhile{State: whyidle.Running}, whyidle.Meanwhile{State: whyidle.Ready}
	for name, c := range map[string]struct {
		wakers map[whyidle.Waker]int64
		doing  map[whyidle.Meanwhile]int64
		named  bool
		state  string
	}{
		"half, half":      {map[whyidle.Waker]int64{by: 50, other: 49}, map[whyidle.Meanwhile]int64{running: 25, ready: 24}, true, IdleRunning},
		"half, less":      {map[whyidle.Waker]int64{by: 50}, map[whyidle.Meanwhile]int64{running: 24, ready: 20}, true, ""},
		"less":            {map[whyidle.Waker]int64{by: 49, other: 48}, map[whyidle.Meanwhile]int64{running: 49}, false, ""},
		"most by a timer": {map[whyidle.Waker]int64{by: 1, {}: 99}, map[whyidle.Meanwhile]int64{running: 1}, false, ""},
	} {
		w := &explainer{stacks: &whyidle.Stacks{}}
		got, err := w.woke(100, c.wakers, map[whyidle.Waker]map[whyidle.Meanwhile]int64{by: c.doing})
		must(t, err)
		if (got != nil) != c.named || got != nil && got.State != c.state {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
