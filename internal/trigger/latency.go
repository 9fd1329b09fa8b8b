package trigger

import (
	"time"

	"github.com/rtl-attach/rtl-attach/internal/histogram"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// latency fires when a percentile of the times from submit to start, over latencyPeriod, is above a
// limit. It fires again only after a period in which it was not.
type latency struct {
	permille int64
	limitNS  uint64
	period   histogram.Histogram
	endNS    uint64 // of the period; 0: not begun
	above    bool
}

const (
	latencyPeriod  = uint64(time.Second)
	leastLatencies = 100 // a period with fewer kernels says nothing
)

func newLatency(permille int64, limitNS uint64) *latency {
	return &latency{permille: permille, limitNS: limitNS}
}

func (l *latency) kernel(d *tracedb.Dispatch, fire func(string, uint64)) {
	if d.SubmitNS == 0 {
		return
	}
	l.advance(d.EndNS, fire)
	l.period.Add(int64(d.StartNS - min(d.SubmitNS, d.StartNS)))
}

// advance closes the period if it is over.
func (l *latency) advance(ns uint64, fire func(string, uint64)) {
	if l.endNS == 0 {
		l.endNS = ns + latencyPeriod
	}
	if ns < l.endNS {
		return
	}
	if l.period.Count() >= leastLatencies {
		value := uint64(l.period.Quantile(l.permille))
		above := value > l.limitNS
		if above && !l.above {
			fire(text(value), l.endNS)
		}
		l.above = above
	}
	l.period = histogram.Histogram{}
	l.endNS = ns + latencyPeriod
}

func (*latency) lost(_, _ uint64) {}

func (l *latency) settle(untilNS uint64, _ bool, fire func(string, uint64)) {
	if l.endNS != 0 {
		l.advance(untilNS, fire)
	}
}
