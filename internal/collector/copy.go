package collector

import (
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// copy takes a memory copy. What it gets wrong is counted as refused.
func (c *Collector) copy(r *ring.Copy) error {
	reason := ring.Reason(r.Reason)
	timed := reason == ring.ReasonNone
	if ring.Direction(r.Direction) >= ring.DirectionCount || reason >= ring.ReasonCount || r.Bytes > maxRun ||
		!soundTime(r.SubmitNS) || timed && (r.StartNS == 0 || r.EndNS < r.StartNS || !soundTime(r.EndNS)) {
		c.tally.refused++
		return nil
	}
	one := tracedb.Copy{
		SubmitNS: r.SubmitNS, Bytes: r.Bytes, From: c.knownAgent(r.From), To: c.knownAgent(r.To), TID: r.TID,
		Direction: r.Direction, Reason: r.Reason,
	}
	if timed {
		one.StartNS, one.EndNS = r.StartNS, r.EndNS
		c.tally.copies.Timed++
	} else {
		c.tally.copies.Untimed++
	}
	c.copies = append(c.copies, one)
	if len(c.copies) == cap(c.copies) {
		return c.flushCopies()
	}
	return nil
}

func (c *Collector) flushCopies() error {
	if len(c.copies) == 0 {
		return nil
	}
	err := c.sink.Copies(c.copies)
	c.copies = c.copies[:0]
	return err
}

// copyCoverage settles the account of copies; nil: none were to be recorded.
func (c *Collector) copyCoverage() *tracedb.CopyCoverage {
	all := c.tally.copies
	arrived := all.Timed + all.Untimed
	account := c.accounts[ring.KindMemoryCopy]
	if account == nil && arrived == 0 {
		return nil
	}
	all.Begun = arrived
	if account != nil { // else it is not known how many there were
		all.Begun = account.Begun
	}
	all.Unexplained = int64(all.Begun) - int64(arrived)
	return &all
}
