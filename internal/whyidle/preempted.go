package whyidle

import "github.com/rtl-attach/rtl-attach/tracedb"

// The recorder does not take the stack of a thread at each preemption. Such a wait counts where the thread
// was at a near event with a stack, before or after it: in the same system call, else the nearest. If none is
// near, its time is shared out by the samples, as the time in which the thread ran.

// unknownPiece is a piece of a gap in which a thread was preempted, with an unknown stack.
type unknownPiece struct {
	gap *gapSums
	l   *lane
	ns  int64
}

// unknownWait is a preemption with an unknown stack.
type unknownWait struct {
	inNS, syscall int64
	before        stackEvent
	pieces        []unknownPiece
}

// stackEvent is a known stack of a thread.
type stackEvent struct {
	stack   int64 // 0: none
	syscall int64 // tracedb.Null: none, or a sample
	ranNS   int64 // for so long the thread ran between it and the preemption
}

// isNearer reports whether an event says better than another where the thread was.
func (e stackEvent) isNearer(other stackEvent, syscall int64) bool {
	if e.stack == 0 || e.ranNS > nearNS || other.stack == 0 {
		return e.stack != 0 && e.ranNS <= nearNS
	}
	if same := e.syscall == syscall; same != (other.syscall == syscall) {
		return same
	}
	return e.ranNS < other.ranNS
}

// mostUnknown limits the preemptions of a thread that wait for its next stack; nearNS is how long it ran
// between two events that are near each other, at most.
const (
	mostUnknown = 64
	nearNS      = 1_000_000
)

// preempted holds the latest preemptions with unknown stacks, by thread.
type preempted map[int64][]unknownWait

// begin notes a preemption with an unknown stack.
func (p preempted) begin(s *sweep, w *wait) {
	if len(p[w.thread]) == mostUnknown {
		p.end(s, w.thread, w.outNS, stackEvent{})
	}
	one := unknownWait{inNS: w.inNS, syscall: w.syscall}
	for _, e := range s.past.of(w.thread, w.inNS).before(w.outNS) {
		if e.isNearer(one.before, w.syscall) {
			one.before = e
		}
	}
	p[w.thread] = append(p[w.thread], one)
}

// add adds a piece of the latest preemption.
func (p preempted) add(l *lane, gap *gapSums, ns int64) {
	all := p[l.thread]
	last := &all[len(all)-1]
	last.pieces = append(last.pieces, unknownPiece{gap, l, ns})
}

// end ends the preemptions of a thread by its next event, at atNS.
func (p preempted) end(s *sweep, thread, atNS int64, next stackEvent) {
	all, known := p[thread]
	if !known {
		return
	}
	delete(p, thread)
	for i := range all {
		u := &all[i]
		near := u.before
		if next.ranNS = atNS - u.inNS; next.isNearer(near, u.syscall) {
			near = next
		}
		for _, piece := range u.pieces {
			if near.stack == 0 {
				piece.share()
				continue
			}
			s.put(piece.l.gpu, piece.gap, Cause{Thread: thread, State: Ready, Stack: near.stack, Syscall: tracedb.Null}, piece.ns)
		}
	}
}

// share adds the piece to the time that samples share out.
func (p *unknownPiece) share() {
	p.l.sums.preemptedNS += p.ns
	if p.gap != nil {
		p.gap.sums.lane(p.l.thread).preemptedNS += p.ns
	}
}

// before returns the latest wait and the latest sample with a stack before a time.
func (t *threadPast) before(atNS int64) (all []stackEvent) {
	for i := len(t.waits) - 1; i >= 0 && t.waits[i].inNS > atNS-nearNS; i-- {
		if w := t.waits[i]; w.stack != 0 && w.inNS <= atNS {
			all = append(all, stackEvent{w.stack, w.syscall, atNS - w.inNS})
			break
		}
	}
	for i := len(t.samples) - 1; i >= 0 && t.samples[i].timeNS > atNS-nearNS; i-- {
		if s := t.samples[i]; s.stack != 0 && s.timeNS <= atNS {
			return append(all, stackEvent{s.stack, tracedb.Null, atNS - s.timeNS})
		}
	}
	return all
}
