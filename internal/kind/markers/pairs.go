package markers

import (
	"cmp"
	"maps"
	"slices"
)

// Bounds of what is remembered of a session. A range beyond them is written at once, without
// its end.
const (
	mostThreads = 1 << 16
	mostDepth   = 1 << 10 // of one thread
	mostOpen    = 1 << 16 // ranges, of all threads and of the process
	mostEarly   = 1 << 12 // stops whose start has not come
)

// pairs makes ranges of the calls that begin and end them.
//
// The calls of one thread come in their order. Calls of different threads may not: a stop
// may come before the start of its range, and waits for it.
type pairs struct {
	done    []Marker
	threads map[uint32]*thread
	started map[uint64]*Marker // by the ranges' numbers
	early   map[uint64]Call    // stops, by the ranges' numbers
	waiting []uint64           // their numbers, in the order of their coming
	open    int
	lossy   bool // records may be missing
}

// thread is a thread's stack of open ranges.
type thread struct {
	losses uint32
	lossy  bool // records of it may be missing
	open   []Marker
	over   int // further ranges, written already
}

func newPairs() pairs {
	return pairs{threads: map[uint32]*thread{}, started: map[uint64]*Marker{}, early: map[uint64]Call{}}
}

// take adds a call. text returns its message.
func (p *pairs) take(c *Call, text func() string) {
	t := p.thread(c)
	switch Operation(c.Operation) {
	case OpMark:
		p.emit(Marker{
			Form: Mark, TID: c.TID, EndTID: c.TID, Level: t.level(), Text: text(), HasText: true,
			StartNS: c.TimeNS, EndNS: c.TimeNS,
		})
	case OpPush:
		p.push(t, begun(c, Range, t.level(), text()))
	case OpPop:
		p.pop(t, c)
	case OpStart:
		p.start(begun(c, ProcessRange, NoLevel, text()))
	case OpStop:
		p.stop(c)
	}
}

func (p *pairs) emit(m Marker) { p.done = append(p.done, m) }

func begun(c *Call, form Form, level int64, text string) Marker {
	return Marker{
		Form: form, TID: c.TID, Level: level, Text: text, HasText: true, Number: c.Range, StartNS: c.TimeNS,
	}
}

// ended returns a range of which only the end is known.
func ended(c *Call, form Form, why Missing) Marker {
	return Marker{Form: form, EndTID: c.TID, Level: NoLevel, Number: c.Range, EndNS: c.TimeNS, Missing: why}
}

// unended passes on a range whose end is not known.
func (p *pairs) unended(m Marker, why Missing) {
	m.Missing = why
	p.emit(m)
}

// complete passes on a range that a call has ended. Clocks of different processors may differ
// by some ns.
func (p *pairs) complete(m Marker, c *Call) {
	m.EndTID, m.EndNS = c.TID, max(c.TimeNS, m.StartNS)
	p.emit(m)
}

// thread returns the thread of a call; nil: it is not known, or there are too many.
func (p *pairs) thread(c *Call) *thread {
	t := p.threads[c.TID]
	if t == nil {
		if c.TID == 0 || len(p.threads) == mostThreads {
			return nil
		}
		t = &thread{losses: c.Losses}
		p.threads[c.TID] = t
	}
	if t.losses != c.Losses {
		t.losses = c.Losses
		p.forget(t)
	}
	return t
}

// forget starts a thread's nesting again: its open ranges may have ended.
func (p *pairs) forget(t *thread) {
	t.lossy, p.lossy = true, true
	for _, m := range t.open {
		p.unended(m, MissingRecords)
	}
	p.open -= len(t.open)
	t.open, t.over = nil, 0
}

func (t *thread) level() int64 {
	if t == nil {
		return NoLevel
	}
	return int64(len(t.open) + t.over)
}

func (p *pairs) push(t *thread, m Marker) {
	switch {
	case t == nil:
		p.unended(m, unfollowed(m.TID))
	case len(t.open) == mostDepth || p.open == mostOpen || t.over > 0:
		p.unended(m, MissingRoom)
		t.over++
	default:
		t.open = append(t.open, m)
		p.open++
	}
}

// unfollowed is why nothing is known of a thread.
func unfollowed(tid uint32) Missing {
	if tid == 0 {
		return MissingThread
	}
	return MissingRoom
}

// pop ends a thread's last range. The ranges of a thread that is not followed are written
// already.
func (p *pairs) pop(t *thread, c *Call) {
	switch {
	case t == nil:
	case t.over > 0:
		t.over--
	case len(t.open) == 0:
		why := MissingStart
		if t.lossy {
			why = MissingRecords
		}
		p.emit(ended(c, Range, why))
	default:
		last := len(t.open) - 1
		p.complete(t.open[last], c)
		t.open[last] = Marker{}
		if t.open = t.open[:last]; last == 0 && cap(t.open) > 32 {
			t.open = nil
		}
		p.open--
	}
}

func (p *pairs) start(m Marker) {
	if old := p.started[m.Number]; old != nil {
		p.unended(*old, MissingRecords)
		delete(p.started, m.Number)
		p.open--
	}
	if stop, came := p.early[m.Number]; came {
		delete(p.early, m.Number)
		if stop.TimeNS >= m.StartNS {
			p.complete(m, &stop)
			return
		}
		p.emit(ended(&stop, ProcessRange, p.beforeStart()))
	}
	if p.open == mostOpen {
		p.unended(m, MissingRoom)
		return
	}
	p.started[m.Number] = &m
	p.open++
}

func (p *pairs) stop(c *Call) {
	if m := p.started[c.Range]; m != nil {
		delete(p.started, c.Range)
		p.open--
		p.complete(*m, c)
		return
	}
	if other, came := p.early[c.Range]; came { // a number is stopped twice
		p.emit(ended(&other, ProcessRange, p.beforeStart()))
		p.early[c.Range] = *c
		return
	}
	if len(p.waiting) == mostEarly {
		p.giveUp()
	}
	p.early[c.Range] = *c
	p.waiting = append(p.waiting, c.Range)
}

// giveUp passes on the stops that have waited longest, without their starts.
func (p *pairs) giveUp() {
	half := len(p.waiting) / 2
	for _, number := range p.waiting[:half] {
		if c, waits := p.early[number]; waits {
			p.emit(ended(&c, ProcessRange, p.beforeStart()))
			delete(p.early, number)
		}
	}
	p.waiting = append(p.waiting[:0], p.waiting[half:]...)
}

// beforeStart is why the start of a process range has not come.
func (p *pairs) beforeStart() Missing {
	if p.lossy {
		return MissingRecords
	}
	return MissingStart
}

// finish passes on what is still open.
func (p *pairs) finish() {
	for _, tid := range slices.Sorted(maps.Keys(p.threads)) {
		for _, m := range p.threads[tid].open {
			p.unended(m, MissingEnd)
		}
	}
	why := MissingEnd
	if p.lossy {
		why = MissingRecords
	}
	for _, m := range slices.SortedFunc(maps.Values(p.started), func(a, b *Marker) int { return cmp.Compare(a.Number, b.Number) }) {
		p.unended(*m, why)
	}
	for _, number := range slices.Sorted(maps.Keys(p.early)) {
		c := p.early[number]
		p.emit(ended(&c, ProcessRange, p.beforeStart()))
	}
	*p = pairs{done: p.done, threads: map[uint32]*thread{}, started: map[uint64]*Marker{}, early: map[uint64]Call{}}
}
