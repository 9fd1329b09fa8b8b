package report

// What was in front of a queue's window when it opened is not in the trace, and may have
// run up to the queue's first kernel that is. That is no idle time.

// leastShown: what is less than a 2000th of a time changes no figure that is shown of it.
const leastShown = 2000

// hidden is the time in which packets may have run that were queued before the window.
func (q *queue) hidden() (span, bool) {
	if q.before <= 0 || len(q.windows) == 0 {
		return span{}, false
	}
	if q.lastNS == 0 {
		return span{q.windows[0].beginNS, q.windows[len(q.windows)-1].endNS}, true
	}
	return span{q.windows[0].beginNS, q.firstNS}, true
}

// hides says whether what the trace cannot know of these queues would show in the figures.
func (a *analysis) hides(queues []*queue, recordedNS int64) bool {
	var spans []span
	for _, q := range queues {
		if s, some := q.hidden(); some {
			spans = append(spans, s)
		}
	}
	return covered(spans, a.window) > recordedNS/leastShown
}

// mayHide says whether something unseen may have run in a gap: no kernel has been swept
// yet of a queue that had a backlog.
func (g *gpu) mayHide(gap span) bool {
	for _, q := range g.queues {
		if q.before > 0 && !q.busy.begun && len(q.windows) > 0 && q.windows[0].beginNS < gap.endNS && q.stay.covers(gap) {
			return true
		}
	}
	return false
}

// covers says whether some of a time lies in the stay, as far as its end is known.
func (st *stay) covers(s span) bool { return st.endNS == 0 || s.beginNS < st.endNS }

// hiddenEdge is the time before the first kernel of each session in which packets
// may have run that were queued before.
func (a *analysis) hiddenEdge(g *gpu) int64 {
	first := map[*stay]int64{}
	for _, q := range g.queues {
		if q.lastNS != 0 && (first[q.stay] == 0 || q.firstNS < first[q.stay]) {
			first[q.stay] = q.firstNS
		}
	}
	var spans []span
	for _, q := range g.queues {
		if s, some := q.hidden(); some {
			if at := first[q.stay]; at != 0 {
				s.endNS = min(s.endNS, at)
			}
			spans = append(spans, s)
		}
	}
	return covered(spans, a.window)
}

// settleEdge finds what no gap between kernels explains of the idle time: it lies before
// the first one or after the last. Of hiddenNS before the first it is not known.
func (gs *idleness) settleEdge(idleNS, hiddenNS int64) {
	edgeNS := idleNS
	for _, t := range gs.byCause {
		edgeNS -= t.totalNS
	}
	edgeNS = max(0, edgeNS)
	hiddenNS = min(hiddenNS, edgeNS)
	gs.byCause[causeUnknown].totalNS += hiddenNS
	gs.byCause[causeEdge].totalNS = edgeNS - hiddenNS
}

func (a *analysis) queuedBefore() (n int64) {
	for _, q := range a.queues {
		n = sum(n, max(0, q.before))
	}
	return n
}
