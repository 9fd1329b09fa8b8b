package stuck

import (
	"time"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// clocksTime limits the time for reading CPUs' clocks.
const clocksTime = 2 * time.Second

// cpuClocks are the scheduler's clocks of CPUs, each read once. A clock that was read earlier makes a shorter time, never a longer one.
type cpuClocks struct {
	read  func(cpu int) (time.Duration, error)
	known map[int]time.Duration // 0: it cannot be read
	spent time.Duration
}

func (c *cpuClocks) at(cpu int) (time.Duration, bool) {
	now, ok := c.known[cpu]
	if !ok && c.spent < clocksTime {
		began := time.Now()
		now, _ = c.read(cpu)
		c.spent += time.Since(began)
		c.known[cpu] = now
	}
	return now, now > 0
}

// asleep returns for how long, at least, a thread has not run; 0: that is not known.
func (c *cpuClocks) asleep(t *target.Target, tid int) time.Duration {
	before, err1 := t.LastRan(tid)
	stat, err2 := t.ThreadStat(tid)
	after, err3 := t.LastRan(tid)
	if err1 != nil || err2 != nil || err3 != nil || before != after || stat.CPU < 0 || stat.State == 'R' {
		return 0 // a thread that ran meanwhile may have changed its CPU
	}
	now, ok := c.at(stat.CPU)
	if !ok {
		return 0
	}
	return max(0, now-after)
}

// noteAsleep notes for how long a thread has not run that was in the same wait at both looks, if that is longer than it was watched.
func (s *stacks) noteAsleep(t *Thread) {
	if !t.Same {
		return
	}
	if d := s.clocks.asleep(s.t, t.TID); d.Seconds() > s.process.Watched {
		t.Asleep = d.Seconds()
	}
}
