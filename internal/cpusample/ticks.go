package cpusample

import "time"

// ticks samples the threads that do not run, in a period, until the recorder is closed.
func (r *Recorder) ticks(period time.Duration) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	c := tickCounter{began: time.Now(), period: period}
	for {
		select {
		case <-r.over:
			return
		case at := <-ticker.C:
			r.tick(c.leftOut(at))
		}
	}
}

// tickCounter counts the ticks that a Ticker leaves out for a slow receiver.
type tickCounter struct {
	began  time.Time
	period time.Duration
	last   int64 // the tick that came last
}

// leftOut returns how many ticks were left out before the one that was due at a time.
func (c *tickCounter) leftOut(at time.Time) uint64 {
	due := int64((at.Sub(c.began) + c.period/2) / c.period)
	n := due - c.last - 1
	c.last = due
	return uint64(max(n, 0))
}

// tick samples the threads that do not run, after so many ticks were left out.
func (r *Recorder) tick(leftOut uint64) {
	err := visit(r.kernel.tick)
	if err == nil && leftOut == 0 || !r.mu.lock(patience) {
		return
	}
	defer r.mu.unlock()
	if err != nil {
		r.failure = err
	}
	now := boottimeNS()
	for _, p := range r.processes {
		if from, until := r.options.Wall.span(p.begunNS); now >= from && now < until {
			most := (now - from) / uint64(time.Second/time.Duration(r.options.Wall.HZ)) // those before it was observed are not its own
			p.ticks += min(leftOut, most)
		}
	}
}
