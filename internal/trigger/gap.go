package trigger

import (
	"time"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// gap fires when a GPU ran no kernel for longer than a limit: when the next kernel has started, or while
// it lasts, if nothing waits to run.
type gap struct {
	gpus
	limitNS uint64
	fire    func(string, uint64) // during settle
}

func newGap(s *Set, limitNS uint64) *gap {
	g := &gap{limitNS: limitNS}
	g.gpus = newGPUs(s, g.next)
	return g
}

func (g *gap) kernel(d *tracedb.Dispatch, fire func(string, uint64)) {
	g.fire = fire
	g.add(d)
}

func (g *gap) lost(fromNS, untilNS uint64) { g.cover(fromNS, untilNS) }

// next looks at the time in front of a kernel.
func (g *gap) next(one *gpu, s spanNS) {
	if one.coveredNS != 0 && s.start > one.coveredNS && s.start-one.coveredNS > g.limitNS && !one.below {
		g.fire(text(s.start-one.coveredNS), s.start)
	}
	if s.end > one.coveredNS {
		one.below = false
	}
}

func (g *gap) settle(untilNS uint64, idle bool, fire func(string, uint64)) {
	g.fire = fire
	g.until(untilNS - min(untilNS, settleNS))
	if !idle {
		return
	}
	g.until(untilNS)
	for _, one := range g.gpu {
		if one.coveredNS != 0 && untilNS > one.coveredNS && untilNS-one.coveredNS > g.limitNS && !one.below {
			fire(text(untilNS-one.coveredNS)+" so far", untilNS)
			one.below = true // this gap has fired
		}
	}
}

func text(ns uint64) string { return humanize.Duration(time.Duration(ns)) }
