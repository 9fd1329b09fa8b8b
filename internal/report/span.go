package report

import (
	"cmp"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// union is the time in which at least one of several kernels ran. The caller adds them in the
// order of their starts.
type union struct {
	busyNS  int64
	untilNS int64 // the latest end
	begun   bool
}

// add counts the part of a kernel that lies in the window and after the kernels before it.
func (u *union) add(beginNS, endNS int64, window traceread.Span) {
	beginNS = u.fresh(beginNS, endNS)
	u.busyNS += window.Within(beginNS, endNS)
}

// addIn is add for a window of several pieces. It drops past pieces.
func (u *union) addIn(beginNS, endNS int64, windows *intervals) {
	beginNS = u.fresh(beginNS, endNS)
	windows.forget(beginNS)
	u.busyNS += windows.length(beginNS, endNS)
}

// fresh returns the begin of the part of a kernel that no earlier kernel covers; it may be
// after the kernel's end.
func (u *union) fresh(beginNS, endNS int64) int64 {
	if u.begun {
		beginNS = max(beginNS, u.untilNS)
	}
	u.untilNS, u.begun = max(u.untilNS, endNS), true
	return beginNS
}

// covered returns the length of the union of spans inside the window.
func covered(spans []traceread.Span, window traceread.Span) int64 {
	spans = slices.Clone(spans)
	slices.SortFunc(spans, func(a, b traceread.Span) int { return cmp.Compare(a.BeginNS, b.BeginNS) })
	var u union
	for _, s := range spans {
		if s.BeginNS >= 0 && s.EndNS > s.BeginNS && s.EndNS <= traceread.LatestNS {
			u.add(s.BeginNS, s.EndNS, window)
		}
	}
	return u.busyNS
}
