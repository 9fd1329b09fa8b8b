package report

import (
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// The trace does not have packets that were in front of a queue's window when it opened.
// They may run until the first recorded kernel of the queue: the GPU may not have been idle
// in that time. (Of a kernel that was running when the window opened, there is no trace.)

// leastShown is the smallest share of a time that can change a figure in a report.
const leastShown = 2000

// recordedFor returns the time from the begin of a queue's first window to the end of its
// last one, inside the declared window.
func (q *queue) recordedFor() traceread.Span {
	s := traceread.Span{BeginNS: q.Windows[0].OpenedNS, EndNS: q.Windows[len(q.Windows)-1].ClosedNS}
	if s.EndNS == 0 {
		s.EndNS = traceread.LatestNS
	}
	return s.Clip(q.session.declared)
}

func (q *queue) hasBacklog() bool { return q.before > 0 && len(q.Windows) > 0 }

// hidden returns the time in which packets queued before the window may have run.
func (q *queue) hidden() traceread.Span {
	s := q.recordedFor()
	if q.lastNS != 0 {
		s.EndNS = q.firstNS
	}
	return s
}

func hidden(queues []*queue) (spans []traceread.Span) {
	for _, q := range queues {
		if q.hasBacklog() {
			spans = append(spans, q.hidden())
		}
	}
	return spans
}

// hides reports whether unrecorded kernels could change the figures.
func (a *analysis) hides(queues []*queue, recordedNS int64) bool {
	return covered(hidden(queues), a.window) > recordedNS/leastShown
}

// mayHide reports whether an unrecorded packet may have run in a gap: a queue with a backlog
// has not yet run a recorded kernel.
func (g *gpu) mayHide(gap traceread.Span) bool {
	g.backlogged = slices.DeleteFunc(g.backlogged, func(q *queue) bool { return q.busy.begun })
	return slices.ContainsFunc(g.backlogged, func(q *queue) bool {
		s := q.recordedFor()
		return s.BeginNS < gap.EndNS && gap.BeginNS < s.EndNS
	})
}

// hiddenEdge returns how much of the time before a GPU's first kernel and after its last one
// may hide unrecorded packets. Times between two kernels are gaps.
func (a *analysis) hiddenEdge(g *gpu) int64 {
	first, last := int64(traceread.LatestNS), int64(0)
	for _, q := range g.queues {
		if q.lastNS != 0 {
			first, last = min(first, q.firstNS), max(last, q.lastNS)
		}
	}
	var edges []traceread.Span
	for _, s := range hidden(g.queues) {
		edges = append(edges, s.Clip(traceread.Span{EndNS: first}), s.Clip(traceread.Span{BeginNS: last, EndNS: traceread.LatestNS}))
	}
	return covered(edges, a.window)
}

// settleEdge adds the idle time before the first kernel and after the last one: the idle time
// outside of the gaps. In hiddenNS of it packets may have run.
func (gs *idleness) settleEdge(idleNS, hiddenNS int64) {
	edgeNS := idleNS
	for _, t := range gs.byCause {
		edgeNS -= t.totalNS
	}
	edgeNS = max(0, edgeNS)
	hiddenNS = min(hiddenNS, edgeNS)
	backlog := &gs.byCause[causeBacklog]
	backlog.totalNS += hiddenNS
	backlog.longestNS = max(backlog.longestNS, hiddenNS)
	gs.byCause[causeEdge].totalNS = edgeNS - hiddenNS
}

func (a *analysis) queuedBefore() (n int64) {
	for _, q := range a.queues {
		n = traceread.Sum(n, q.before)
	}
	return n
}
