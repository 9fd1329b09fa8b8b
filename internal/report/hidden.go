package report

import (
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Packets that were in front of a queue's window when it opened are not in the trace. They
// may run until the queue's first kernel that is in it: that time is not known to be idle.
// (A kernel that the GPU was running when the window opened leaves no mark at all.)

// leastShown: less than a 2000th of a time changes no figure that a report shows of it.
const leastShown = 2000

// recordedFor is the time from the opening of a queue's first window to the end of its
// last, as far as it lies in the declared window.
func (q *queue) recordedFor() traceread.Span {
	s := traceread.Span{BeginNS: q.Windows[0].OpenedNS, EndNS: q.Windows[len(q.Windows)-1].ClosedNS}
	if s.EndNS == 0 {
		s.EndNS = traceread.LatestNS
	}
	return s.Clip(q.session.declared)
}

func (q *queue) hasBacklog() bool { return q.before > 0 && len(q.Windows) > 0 }

// hidden is the time in which packets may have run that were queued before the window.
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

// hides reports whether kernels that the trace cannot know of would show in the figures.
func (a *analysis) hides(queues []*queue, recordedNS int64) bool {
	return covered(hidden(queues), a.window) > recordedNS/leastShown
}

// mayHide reports whether an unseen packet may have run in a gap: a queue with a backlog has
// not run a recorded kernel yet.
func (g *gpu) mayHide(gap traceread.Span) bool {
	g.backlogged = slices.DeleteFunc(g.backlogged, func(q *queue) bool { return q.busy.begun })
	return slices.ContainsFunc(g.backlogged, func(q *queue) bool {
		s := q.recordedFor()
		return s.BeginNS < gap.EndNS && gap.BeginNS < s.EndNS
	})
}

// hiddenEdge is how much of the time before a GPU's first kernel, and after its last,
// may hide something. What lies between two kernels is a gap.
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

// settleEdge finds what no gap between kernels explains of the idle time: it lies before
// the first one or after the last. In hiddenNS of it something may have run.
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
