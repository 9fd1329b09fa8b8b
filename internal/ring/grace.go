package ring

import (
	"fmt"
	"sync/atomic"
)

// Ask is the payload's request to check threads that it cannot check without a stop.
type Ask struct {
	TIDs   []uint32 // in the target's pid namespace; not to be trusted
	Ranges []Range  // code in which they must not have a frame

	seq uint32
}

// PendingAsk returns the request that waits for an answer, if there is one.
func (c *Control) PendingAsk() (Ask, bool) {
	g := c.grace
	seq := atomic.LoadUint32(&g.AskSeq)
	if seq == atomic.LoadUint32(&g.AnswerSeq) {
		return Ask{}, false
	}
	ask := Ask{seq: seq}
	for i := range min(atomic.LoadUint32(&g.Count), GraceAsk) {
		ask.TIDs = append(ask.TIDs, atomic.LoadUint32(&g.TIDs[i]))
	}
	for i := range min(atomic.LoadUint32(&g.RangeCount), GraceRanges) {
		r := Range{Lo: atomic.LoadUint64(&g.Ranges[i].Lo), Hi: atomic.LoadUint64(&g.Ranges[i].Hi)}
		if r.Lo < r.Hi {
			ask.Ranges = append(ask.Ranges, r)
		}
	}
	return ask, true
}

// Answer writes one verdict for each thread of an Ask.
func (c *Control) Answer(ask Ask, verdicts []Verdict) error {
	if len(verdicts) != len(ask.TIDs) {
		return fmt.Errorf("%d verdicts on %d threads", len(verdicts), len(ask.TIDs))
	}
	for i, v := range verdicts {
		atomic.StoreUint32(&c.grace.Verdicts[i], uint32(v))
	}
	bump(&c.grace.AnswerSeq, ask.seq)
	return nil
}
