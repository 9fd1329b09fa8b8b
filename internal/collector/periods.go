package collector

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Periods receives the windows of a schedule, which follow each other in one ring. The collector's
// goroutine makes the calls.
type Periods interface {
	// Begin returns the sink for the records of a window.
	Begin(ring.Period) (Sink, error)
	// Ended is called when the sink has got the end of the window. told is false if the payload's
	// counters did not come.
	Ended(counters ring.Counters, told bool) error
	// Missed is called for windows that were not recorded.
	Missed(ring.Period) error
}

// periods is the state of a collector that follows a schedule.
type periods struct {
	Periods
	open     bool // records belong to a window
	total    Result
	filter   *filter.Filter
	holes    uint64 // in the windows before
	last     ring.End
	counters ring.Counters
	told     int // words of counters
}

// NewOfSchedule returns a collector for a session with a schedule.
func NewOfSchedule(reader *ring.Reader, p Periods, kinds []*kind.Kind) *Collector {
	c := New(reader, nil, kinds)
	c.kinds, c.periods = kinds, &periods{Periods: p}
	return c
}

// ofSchedule processes a record of a session with a schedule. It returns false for a record of the
// open window.
func (c *Collector) ofSchedule(r *ring.Record) (done bool, err error) {
	p := c.periods
	switch r.Type() {
	case ring.TypePeriod:
		return true, c.periodSays(*r.Period())
	case ring.TypeCounters:
		p.count(r.Counters())
		return true, nil
	case ring.TypeEnd:
		if !p.open {
			break
		}
		end := *r.End()
		c.end = &end
		return true, c.endWindow(nil)
	}
	if !p.open {
		c.tally.afterEnd++
	}
	return !p.open, nil
}

func (c *Collector) periodSays(one ring.Period) error {
	p := c.periods
	if max(one.Number, one.Count) > kind.MostCount || !kind.SoundTime(one.PlannedNS) || !kind.SoundTime(one.PlannedEndNS) || !kind.SoundTime(one.ArmedNS) {
		c.tally.refused++
		return nil
	}
	switch ring.PeriodWhat(one.What) {
	case ring.PeriodBegin:
		if p.open { // its end did not come
			if err := c.endWindow(nil); err != nil {
				return err
			}
		}
		return c.beginWindow(one)
	case ring.PeriodMissed:
		return p.Missed(one)
	case ring.PeriodLast:
		p.last = ring.End(one.End)
	default:
		c.tally.unknown++
	}
	return nil
}

// beginWindow forgets everything of the window before: the payload starts its numbers again.
func (c *Collector) beginWindow(one ring.Period) error {
	p := c.periods
	sink, err := p.Begin(one)
	if err != nil {
		return err
	}
	c.sink, p.open = sink, true
	c.rounds, c.lanes = c.rounds.again(), c.lanes.again()
	c.tables, c.coverage, c.accounts, c.missing = tables{}, coverage{}, [ring.KindsMax]*ring.KindAccount{}, nil
	c.makeDecoders(c.kinds)
	c.Filter(p.filter, func() uint64 { return one.ArmedNS })
	p.counters, p.told = ring.Counters{}, 0
	return nil
}

// endWindow closes the open window.
func (c *Collector) endWindow(broken error) error {
	p := c.periods
	if err := errors.Join(c.flushBatch(), c.flushKinds()); err != nil {
		return err
	}
	result, err := c.finish(broken)
	p.total.add(result)
	if c.end != nil {
		p.last = ring.End(c.end.End)
	}
	p.holes = c.reader.Holes()
	c.stats.add(c.tally)
	c.tally, c.end, p.open = tally{}, nil, false
	return errors.Join(err, p.Ended(p.counters, p.told > 0))
}

// finishAll closes the last window. records that came outside of any window are lost.
func (c *Collector) finishAll(broken error) (Result, error) {
	p := c.periods
	var err error
	if p.open {
		err = c.endWindow(broken)
	}
	p.total.End, p.total.Ended = p.last, c.reader.Ended()
	if n := c.tally.afterEnd + c.tally.refused + c.tally.unknown; n > 0 {
		p.total.addLoss(tracedb.Loss{Cause: CauseRefused, Records: n})
	}
	return p.total, err
}

// count stores some of the payload's counters. A record from the target may say anything.
func (p *periods) count(r *ring.CountersRecord) {
	words := (*[ring.CountersStructBytes / 8]uint64)(unsafe.Pointer(&p.counters))
	for i := range min(uint64(r.Count), uint64(len(r.Values))) {
		if at := uint64(r.First) + i; at < uint64(len(words)) && r.Values[i] <= kind.MostCount {
			words[at] = r.Values[i]
			p.told++
		}
	}
}

// add adds the result of a window.
func (r *Result) add(one Result) {
	r.Timed += one.Timed
	r.Filtered += one.Filtered
	for i, n := range one.Untimed {
		r.Untimed[i] += n
	}
	r.Lost += one.Lost
	r.Holes += one.Holes
	r.Records += one.Records
	for _, l := range one.Losses {
		r.addLoss(l)
	}
	for _, k := range one.Kinds {
		r.addKind(k)
	}
	for _, u := range one.Unavailable {
		if !slices.ContainsFunc(r.Unavailable, func(known tracedb.Unavailable) bool { return known.Kind == u.Kind }) {
			r.Unavailable = append(r.Unavailable, u)
		}
	}
	if len(r.Coverage) == 0 {
		r.Coverage = make([]tracedb.Coverage, 1)
	}
	r.Coverage[0].Untimed += one.NoTimes()
	for _, c := range one.Coverage {
		r.Coverage[0].Unexplained += max(c.Unexplained, -c.Unexplained)
	}
}

func (r *Result) addLoss(one tracedb.Loss) {
	for i := range r.Losses {
		if r.Losses[i].Cause == one.Cause {
			r.Losses[i].Records += one.Records
			return
		}
	}
	r.Losses = append(r.Losses, tracedb.Loss{Cause: one.Cause, Records: one.Records})
}

func (r *Result) addKind(one tracedb.KindCoverage) {
	for i := range r.Kinds {
		if k := &r.Kinds[i]; k.Kind == one.Kind {
			k.Begun, k.Timed, k.Untimed, k.Unexplained = k.Begun+one.Begun, k.Timed+one.Timed, k.Untimed+one.Untimed, k.Unexplained+one.Unexplained
			return
		}
	}
	r.Kinds = append(r.Kinds, one)
}
