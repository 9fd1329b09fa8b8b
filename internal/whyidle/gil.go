package whyidle

import "github.com/rtl-attach/rtl-attach/internal/traceread"

// blockedPiece is a piece of a gap in which a thread was blocked.
type blockedPiece struct {
	gpu   int64
	gap   *gapSums
	cause Cause
	span  traceread.Span
	in    [2]*causeSums // where it is counted; nil: nowhere
}

// putBlocked counts a blocked piece, and what its waker did meanwhile.
func (s *sweep) putBlocked(p *blockedPiece) {
	ns := p.span.EndNS - p.span.BeginNS
	for i, to := range p.sums(s) {
		one := to.put(p.cause, ns)
		if p.in[i] = one; p.cause.Waker.Thread == 0 {
			continue
		}
		if one.doing == nil {
			one.doing = &doing{}
		}
		one.doing.add(s.past.of(p.cause.Waker.Thread, p.span.EndNS), s.waitsSince(p.cause.Waker.Thread, p.span), p.span.EndNS)
	}
}

// sums returns where a piece is counted.
func (p *blockedPiece) sums(s *sweep) []*sums {
	if p.gap != nil {
		return []*sums{s.gpu(p.gpu), p.gap.sums}
	}
	return []*sums{s.gpu(p.gpu)}
}

// A thread that waits for Python's lock sleeps for 5 ms at a time until it has it: the waits of a chain.
// Who woke it in the last one has released the lock. Whether that thread held it all the time is not known.

// gilWaits has the chain of each thread that waited for the lock last.
type gilWaits map[int64]*gilChain

type gilChain struct {
	endNS  int64
	pieces []blockedPiece
}

// chainGapNS is how long a thread runs between two waits of a chain, at most. mostPieces limits the
// pieces of a chain.
const (
	chainGapNS = 1_000_000
	mostPieces = 1 << 10
)

// follow finds the chain that a wait continues, and gives the pieces of it to the wait's waker.
func (g gilWaits) follow(s *sweep, w *wait) error {
	isGIL := w.gil
	if !isGIL && w.stack != 0 && !w.preempted {
		var err error
		if isGIL, err = s.stacks.waitsForGIL(w.stack); err != nil {
			return err
		}
	}
	chain := g[w.thread]
	switch {
	case !isGIL && w.preempted: // between two waits of a chain
	case !isGIL:
		delete(g, w.thread)
	case chain == nil || w.outNS-chain.endNS > chainGapNS || len(chain.pieces) >= mostPieces:
		g[w.thread] = &gilChain{endNS: w.inNS}
	default:
		chain.endNS = w.inNS
		if by := w.waker(); by != (Waker{}) {
			chain.give(s, by)
		}
	}
	return nil
}

// add adds a piece of a wait to its chain.
func (g gilWaits) add(w *wait, p blockedPiece) {
	if chain := g[w.thread]; chain != nil && chain.endNS == w.inNS {
		chain.pieces = append(chain.pieces, p)
	}
}

// give gives the pieces of a chain to another waker.
func (c *gilChain) give(s *sweep, by Waker) {
	for i := range c.pieces {
		p := &c.pieces[i]
		if p.cause.Waker == by {
			continue
		}
		for _, one := range p.in {
			if one != nil {
				one.ns -= p.span.EndNS - p.span.BeginNS
				one.times--
			}
		}
		p.cause.Waker = by
		s.putBlocked(p)
	}
}
