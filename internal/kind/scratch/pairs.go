package scratch

import (
	"cmp"
	"maps"
	"slices"
)

// mostOpen bounds what is remembered of a session. An operation beyond it is written at once, without
// its end.
const mostOpen = 1 << 12

// place is where at most one operation goes on at a time.
type place struct {
	tid       uint32
	queue     uint64
	operation Operation
}

// begun is an operation whose end has not come.
type begun struct {
	Span
	losses uint32
}

// pairs makes operations of the events that begin and end them. The events of one thread come in
// their order.
type pairs struct {
	done []Span
	open map[place]begun
}

func newPairs() pairs { return pairs{open: map[place]begun{}} }

func (p *pairs) take(e *Event) {
	what := eventKind(e.Event)
	at := place{e.TID, e.QueueAddress, what.operation()}
	o := Span{
		Operation: at.operation, TID: e.TID, Queue: e.QueueAddress, Dispatch: e.Dispatch, Bytes: e.SizeBytes, Slots: e.Slots, Flags: e.Flags,
	}
	if what.isEnd() {
		o.EndNS = e.TimeNS
		p.end(at, o, e.Losses)
		return
	}
	o.StartNS = e.TimeNS
	p.start(at, begun{o, e.Losses})
}

func (p *pairs) start(at place, b begun) {
	if old, is := p.open[at]; is {
		p.done = append(p.done, old.Span)
	} else if len(p.open) == mostOpen {
		p.done = append(p.done, b.Span)
		return
	}
	p.open[at] = b
}

func (p *pairs) end(at place, o Span, losses uint32) {
	b, is := p.open[at]
	delete(p.open, at)
	switch {
	case !is:
	case b.isEndedBy(o, losses):
		o.StartNS = b.StartNS
		o.EndNS = max(o.EndNS, o.StartNS) // clocks of different processors may differ by some ns
	default:
		p.done = append(p.done, b.Span)
	}
	p.done = append(p.done, o)
}

// isEndedBy reports whether an end at the same place is that of the operation. Where records may be
// missing, it is so only for an allocation for the same packet.
func (b *begun) isEndedBy(o Span, losses uint32) bool {
	if o.Operation == Allocate {
		return b.Dispatch == o.Dispatch
	}
	return b.losses == losses
}

// finish passes on what is still open.
func (p *pairs) finish() {
	left := slices.SortedFunc(maps.Values(p.open), func(a, b begun) int {
		return cmp.Or(cmp.Compare(a.StartNS, b.StartNS), cmp.Compare(a.TID, b.TID), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Operation, b.Operation))
	})
	for _, b := range left {
		p.done = append(p.done, b.Span)
	}
	clear(p.open)
}
