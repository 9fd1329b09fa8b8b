package session

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/pausemeter"
)

// TestMeterCounts: our stops, those of each process, until its session ends.
func TestMeterCounts(t *testing.T) {
	m, us := newMeter(), uint32(os.Getpid())
	m.note([]pausemeter.Stop{
		{PID: 7, By: us, Duration: 30 * time.Microsecond},
		{PID: 7, By: us + 1, Duration: time.Second},
		{PID: 8, By: us, Duration: 50 * time.Microsecond},
		{PID: 7, By: us, Duration: 20 * time.Microsecond},
	})
	want := pausemeter.Sum{Stops: 2, Total: 50 * time.Microsecond, Worst: 30 * time.Microsecond}
	if seen, err := m.seen(7); seen != want || err != nil {
		t.Errorf("%v, %v; want %v", seen, err, want)
	}
	if c := m.counters(7); len(c) != 3 || c[0].Value != 2 || c[1].Value != 50_000 || c[2].Value != 30_000 {
		t.Errorf("%v", c)
	}
	if seen, _ := m.seen(7); seen.Stops != 0 {
		t.Errorf("counted twice: %v", seen)
	}
	if seen, _ := m.seen(8); seen.Stops != 1 {
		t.Errorf("of another process: %v", seen)
	}
}

// TestMeterThatFails: it, and none, know nothing and stop nobody.
func TestMeterThatFails(t *testing.T) {
	for _, m := range []*meter{nil, {sums: map[int]pausemeter.Sum{}, err: errors.New("no")}} {
		m.watch(7)
		if c := m.counters(7); c != nil {
			t.Errorf("%v", c)
		}
		m.close()
	}
}
