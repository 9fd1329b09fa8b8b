package collector

import "sync/atomic"

// stats are the live figures of a session, for other goroutines.
type stats struct {
	timed, filtered, untimed, lost, bytes atomic.Uint64

	before tally // of the windows before; the collector's goroutine
}

func (s *stats) add(t tally) {
	s.before.timed += t.timed
	s.before.filtered += t.filtered
	s.before.lost += t.lost
	for reason, n := range t.untimed {
		s.before.untimed[reason] += n
	}
}

// Progress is a snapshot of the live figures.
type Progress struct {
	Dispatches  uint64 // timed
	Filtered    uint64 // timed, and left out
	Untimed     uint64
	LostRecords uint64
	RingBytes   uint64 // drained from the ring
}

// Progress returns the live figures. Any goroutine may call it at any time.
func (c *Collector) Progress() Progress {
	return Progress{
		Dispatches:  c.stats.timed.Load(),
		Filtered:    c.stats.filtered.Load(),
		Untimed:     c.stats.untimed.Load(),
		LostRecords: c.stats.lost.Load(),
		RingBytes:   c.stats.bytes.Load(),
	}
}

// publish copies the tally to the figures that Progress reads.
func (c *Collector) publish() {
	before := &c.stats.before
	c.stats.timed.Store(before.timed + c.tally.timed)
	c.stats.filtered.Store(before.filtered + c.tally.filtered)
	c.stats.untimed.Store(before.untimedTotal() + c.tally.untimedTotal())
	c.stats.lost.Store(max(before.lost+c.tally.lost, c.reader.Holes())) // a discarded record leaves a hole, too
	c.stats.bytes.Store(c.reader.ConsumedBytes())
}
