package flight

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// errNothing is the error of a trace without a session.
var errNothing = errors.New("no session has records of that time")

// piece is what one session adds to a trace. It does not change.
type piece struct {
	part
	recorder *Recorder
	kept     beside
	names    map[uint32]string
	counters []tracedb.Counter
	markNS   uint64
	untilNS  uint64 // the most that the declared window can have
	reason   string // of the end
	hasEnded bool   // before the trigger
	endFired bool   // its end is the trigger: it does not limit the others' windows
}

// piece cuts the time of a trigger out of the records; nil: the session was not active then.
func (r *Recorder) piece(p *pending, kept beside) *piece {
	fromNS, endNS := p.AtNS-min(uint64(r.config.KeepLast), p.AtNS), p.AtNS+uint64(r.config.KeepAfter)
	if p.by != r && (r.fromNS > endNS || r.endedNS != 0 && r.endedNS < fromNS) {
		return nil
	}
	one := &piece{
		part:     part{cut: r.store.cut(fromNS), definitions: r.definitions.log},
		recorder: r, kept: kept, names: maps.Clone(r.names), markNS: r.markNS, reason: tracedb.EndTriggered,
		untilNS: min(endNS, max(r.markNS, p.AtNS)),
	}
	if p.by != r && r.endedNS != 0 && r.markNS < p.AtNS && r.fromNS <= p.AtNS {
		one.reason, one.untilNS, one.hasEnded = r.reason, max(r.markNS, one.fromNS), true
	}
	one.endFired = p.by == r && r.endedNS != 0 && r.markNS <= p.AtNS
	one.counters = r.counted(one.fromNS)
	return one
}

// trace is the records of a trigger on their way into a file.
type trace struct {
	group   *Group
	pending *pending
	state   State
	late    []int
	floorNS uint64 // of what sessions that have ended have kept
	fromNS  uint64 // the window
	endNS   uint64
}

// gather adds the records of the sessions that have ended. The caller holds g.mu.
func (g *Group) gather(p *pending) *trace {
	t := &trace{group: g, pending: p, state: State{Gone: map[int]string{}, Late: map[int]bool{}, InTrace: map[int]bool{}}}
	for _, r := range g.ended {
		if !p.asked[r] {
			p.add(r, r.beside())
		}
		if r.gone != "" {
			t.state.Gone[r.host.PID] = r.gone
		}
	}
	for _, r := range g.live {
		if !p.asked[r] {
			t.state.Late[r.host.PID] = true
		}
	}
	t.late = slices.Sorted(maps.Keys(t.state.Late))
	t.floorNS = g.floorNS
	p.pieces = slices.DeleteFunc(p.pieces, func(one *piece) bool { return one.leftOut(one.untilNS) })
	t.fromNS, t.endNS = t.span()
	p.pieces = slices.DeleteFunc(p.pieces, func(one *piece) bool { return one.leftOut(t.endNS) })
	for _, one := range p.pieces {
		t.state.InTrace[one.recorder.host.PID] = true
	}
	return t
}

// leftOut releases a piece whose session began after endNS: its process has joined the others since.
func (w *piece) leftOut(endNS uint64) bool {
	out := w.recorder.fromNS > endNS
	if out {
		w.release()
	}
	return out
}

// span returns the time that all processes of the trace have in common, or, of processes that begin meanwhile, the time of which
// everything is kept. A process may have several sessions.
func (t *trace) span() (fromNS, endNS uint64) {
	first, last := map[int]*piece{}, uint64(0) // by pid; the end of what has ended
	for _, one := range t.pending.pieces {
		pid := one.recorder.host.PID
		if earlier := first[pid]; earlier == nil || one.fromNS < earlier.fromNS {
			first[pid] = one
		}
		switch {
		case one.hasEnded || one.endFired:
			last = max(last, one.untilNS)
		case endNS == 0 || one.untilNS < endNS:
			endNS = one.untilNS
		}
	}
	if endNS == 0 {
		endNS = last
	}
	began := uint64(0) // the first process, of those that have begun meanwhile
	for _, one := range first {
		if (t.group.host.Joining || one.recorder.host.Joined) && one.limit == tracedb.LimitStart {
			if began == 0 || one.fromNS < began {
				began = one.fromNS
			}
			continue
		}
		fromNS = max(fromNS, one.fromNS)
	}
	if fromNS == 0 {
		fromNS = began
	}
	fromNS = max(fromNS, t.floorNS)
	return fromNS, max(endNS, fromNS)
}

// run makes the trace, and returns the outcome.
func (t *trace) run() Outcome {
	began, p := time.Now(), t.pending
	defer func() {
		for _, one := range p.pieces {
			one.release()
		}
	}()
	o := Outcome{Late: t.late, Trigger: tracedb.Trigger{
		Number: p.number, Expression: p.Expression, Value: p.Value, FiredNS: p.AtNS, FromNS: t.fromNS, Ignored: p.ignored,
	}}
	for _, one := range p.pieces {
		o.Older += one.older
	}
	o.Path, o.Records, o.Err = t.write(o.Trigger)
	o.Took = time.Since(began)
	return o
}

// write makes the trace. It leaves none after an error.
func (t *trace) write(by tracedb.Trigger) (path string, records uint64, err error) {
	if len(t.pending.pieces) == 0 {
		return "", 0, errNothing
	}
	db, closed, err := t.group.host.Create(by.Number)
	if err != nil {
		return "", 0, err
	}
	defer closed()
	path = db.Path()
	for _, one := range t.pending.pieces {
		var n uint64
		n, err = one.fill(db, by, t.endNS)
		if records += n; err != nil {
			break
		}
	}
	if targets := t.group.host.Targets; targets != nil && err == nil {
		err = errors.Join(db.BeginCommon(by.FromNS), db.EndCommon(t.endNS), db.OrderGPUs(), db.Targets(targets(t.state)))
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return "", 0, errors.Join(fmt.Errorf("%s: %w", path, err), os.Remove(path), removeIfThere(path+"-journal"))
	}
	return path, records, nil
}

// fill writes the session. Its declared window is what it has of the common one, which ends at endNS.
func (w *piece) fill(db *tracedb.DB, by tracedb.Trigger, endNS uint64) (records uint64, err error) {
	r := w.recorder
	fromNS := max(by.FromNS, w.fromNS)
	if w.hasEnded {
		fromNS = min(fromNS, w.untilNS)
	}
	by.FromNS, by.LimitedBy, by.Older = fromNS, w.limit, w.older
	info := r.host.Info()
	info.BegunNS, info.WindowNS = r.begun, fromNS
	info.ThreadName = func(tid uint32) string {
		if name := w.names[tid]; name != "" {
			return name
		}
		return r.threadName(tid)
	}
	s, err := db.Begin(info)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(s.Trigger(by), s.Filters(r.group.host.Filters)); err != nil {
		return 0, err
	}
	untilNS := max(fromNS, min(endNS, w.untilNS))
	result, err := collector.Replay(collector.Part{
		Each: w.each, Holes: w.holes(), Reason: w.reason, WindowEndNS: untilNS, UntilNS: w.markNS,
		Filter: r.group.host.Filter, BeginNS: fromNS,
	}, s, r.kinds)
	err = errors.Join(err, s.Counters(w.counters))
	if w.kept != nil && err == nil {
		err = w.kept(s, fromNS, untilNS)
	}
	for _, p := range r.host.Pauses {
		if p.StartNS >= w.fromNS {
			err = errors.Join(err, s.Pause(p))
		}
	}
	return result.Records, err
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
