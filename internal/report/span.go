package report

import (
	"cmp"
	"slices"
)

// A span is a stretch of time, in ns.
type span struct{ beginNS, endNS int64 }

// always is all the time that there is.
var always = span{0, latest}

// within is how much of a stretch lies in the span.
func (s span) within(beginNS, endNS int64) int64 {
	return max(0, min(endNS, s.endNS)-max(beginNS, s.beginNS))
}

// A union is the time in which at least one of some kernels ran. They are added
// in the order of their starts.
type union struct {
	busyNS  int64
	untilNS int64 // the latest end
	begun   bool
}

// add counts of a kernel what lies in the window and beyond those before it.
func (u *union) add(beginNS, endNS int64, window span) {
	if u.begun {
		beginNS = max(beginNS, u.untilNS)
	}
	u.busyNS += window.within(beginNS, endNS)
	u.untilNS, u.begun = max(u.untilNS, endNS), true
}

// covered adds up the union of spans, as far as it lies in the window.
func covered(spans []span, window span) int64 {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.beginNS, b.beginNS) })
	var u union
	for _, s := range spans {
		if s.beginNS >= 0 && s.endNS > s.beginNS && s.endNS <= latest {
			u.add(s.beginNS, s.endNS, window)
		}
	}
	return u.busyNS
}
