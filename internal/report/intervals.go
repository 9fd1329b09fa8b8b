package report

import (
	"github.com/rtl-attach/rtl-attach/internal/kind/copies"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// intervals are disjoint times in ascending order. Queries ascend, too, so that past
// intervals can be dropped.
type intervals []traceread.Span

// add adds an interval. It must not begin before the last one.
func (in *intervals) add(one traceread.Span) {
	if last := len(*in) - 1; last >= 0 && one.BeginNS <= (*in)[last].EndNS {
		(*in)[last].EndNS = max((*in)[last].EndNS, one.EndNS)
		return
	}
	*in = append(*in, one)
}

// forget drops the intervals that ended by a time.
func (in *intervals) forget(untilNS int64) {
	for len(*in) > 0 && (*in)[0].EndNS <= untilNS {
		*in = (*in)[1:]
	}
}

// within returns how much of a time lies both in the intervals and in m, in ns.
func (in *intervals) within(m measure, beginNS, endNS int64) (ns int64) {
	in.forget(beginNS)
	for _, one := range *in {
		if one.BeginNS >= endNS {
			break
		}
		ns += m.length(max(one.BeginNS, beginNS), min(one.EndNS, endNS))
	}
	return ns
}

// length returns how much of a time lies in the intervals, in ns.
func (in intervals) length(beginNS, endNS int64) (ns int64) {
	for _, one := range in {
		if one.BeginNS >= endNS {
			break
		}
		ns += one.Within(beginNS, endNS)
	}
	return ns
}

// mostIntervals limits the intervals of copies in memory. If a trace has more, no gap gets
// the cause copy.
const mostIntervals = 1 << 20

// readCopies reads the times in which copies ran on each GPU, if the trace has copies.
func (st *state) readCopies() error {
	n := 0
	return copies.EachSpan(background, st.trace, func(of int64, s traceread.Span) bool {
		g := st.gpus[of]
		if g == nil {
			return true
		}
		before := len(g.copies)
		g.copies.add(s)
		if n += len(g.copies) - before; n <= mostIntervals {
			return true
		}
		for _, g := range st.gpus {
			g.copies = nil
		}
		return false
	})
}

// addLosses adds the times in which records were lost: kernels on the session's GPUs may be
// missing there. The trace has the losses in ascending order.
func (st *state) addLosses() {
	for _, l := range st.trace.Losses {
		if l.Session == nil {
			continue
		}
		for g := range st.sessions[l.Session.ID].on {
			g.lost.add(l.Span)
		}
	}
}
