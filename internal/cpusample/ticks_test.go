package cpusample

import (
	"testing"
	"time"
)

// A tick that comes late is none that is left out.
func TestLeftOut(t *testing.T) {
	c := tickCounter{began: time.Now(), period: 100 * time.Millisecond}
	for _, tick := range []struct {
		at   time.Duration
		want uint64
	}{
		{101 * time.Millisecond, 0},
		{203 * time.Millisecond, 0},
		{501 * time.Millisecond, 2},
		{598 * time.Millisecond, 0},
		{610 * time.Millisecond, 0},
		{800 * time.Millisecond, 1},
	} {
		if got := c.leftOut(c.began.Add(tick.at)); got != tick.want {
			t.Errorf("after %v: %d left out, want %d", tick.at, got, tick.want)
		}
	}
}
