package collector

import (
	"cmp"
	"math"
	"slices"
	"syscall"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// record processes one record from the ring. It returns only errors of the sink; errors in
// a record are counted.
func (c *Collector) record(r *ring.Record) error {
	c.tally.records++
	if c.keep != nil {
		c.keep(r)
	}
	if c.periods != nil {
		if done, err := c.ofSchedule(r); done || err != nil {
			return err
		}
	}
	if c.end != nil {
		c.tally.afterEnd++
		return nil
	}
	switch r.Type() {
	case ring.TypeDispatch:
		return c.dispatch(r.Dispatch())
	case ring.TypeUntimed:
		return c.noTimes(r.Untimed())
	case ring.TypeWindow:
		return c.window(r.Window())
	case ring.TypeLost:
		return c.lost(r.Lost())
	case ring.TypeString:
		c.tally.refusedIf(!c.tables.addString(r.StringLine().ID, r.Text))
		return nil
	case ring.TypeKindAccount:
		c.account(*r.KindAccount())
		return nil
	case ring.TypeUnavailable:
		return c.unavailable(r.Unavailable())
	case ring.TypeEnd:
		end := *r.End()
		c.end = &end
		return nil
	}
	if d := c.decoderOf(r.Type()); d != nil {
		return d.Decode(r)
	}
	return c.define(r)
}

// account stores the payload's account of one kind.
func (c *Collector) account(a ring.KindAccount) {
	if a.Kind >= ring.KindsMax || max(a.Begun, a.Timed, a.Untimed, a.Lost) > kind.MostCount || c.accounts[a.Kind] != nil {
		c.tally.refused++
		return
	}
	c.accounts[a.Kind] = &a
}

// unavailable stores that a kind cannot be recorded in this session.
func (c *Collector) unavailable(u *ring.Unavailable) error {
	if u.Kind >= ring.KindsMax {
		c.tally.refused++
		return nil
	}
	one := tracedb.Unavailable{Kind: ring.Kind(u.Kind).String(), Reason: cmp.Or(c.tables.strings[u.Reason], syscall.Errno(u.Error).Error())}
	if slices.ContainsFunc(c.missing, func(m tracedb.Unavailable) bool { return m.Kind == one.Kind }) {
		return nil // a flight recorder keeps one of each window
	}
	c.missing = append(c.missing, one)
	if c.tell != nil {
		c.tell(one)
	}
	return c.sink.Unavailable(one)
}

func (c *Collector) dispatch(d *ring.Dispatch) error {
	// A submit time after the start is accepted: the conversion of the GPU's clock is an estimate.
	if d.EndNS < d.StartNS || !kind.SoundTime(d.EndNS) || !kind.SoundTime(d.SubmitNS) {
		c.tally.badTimes++
		return nil
	}
	if !soundIndex(d.Index) {
		c.tally.refused++
		return nil
	}
	submitNS := d.SubmitNS
	if d.Flags&ring.FlagSubmitUnknown != 0 {
		submitNS = 0
	}
	one := tracedb.Dispatch{
		StartNS: d.StartNS, EndNS: d.EndNS, SubmitNS: submitNS, Index: d.Index, TID: d.TID, Flags: d.Flags,
		Queue:  c.known(c.tables.queues.has(d.Queue), d.Queue),
		Launch: c.known(c.tables.launches.has(d.Launch), d.Launch),
	}
	c.tally.newestNS = max(c.tally.newestNS, d.EndNS)
	if c.filter != nil && c.filter.waits(&one) {
		if len(c.filter.held) >= mostHeld {
			return c.number(0)
		}
		return nil
	}
	return c.timed(&one)
}

// timed passes a dispatch on, or leaves it out.
func (c *Collector) timed(one *tracedb.Dispatch) error {
	a := c.coverage.of(one.Queue)
	a.changed = true
	if c.filter != nil && !c.filter.has(one) {
		return c.leaveOut(a, one)
	}
	c.batch = append(c.batch, *one)
	c.tally.timed++
	a.Timed++
	if len(c.batch) == cap(c.batch) {
		return c.flushBatch()
	}
	return nil
}

func (c *Collector) noTimes(u *ring.Untimed) error {
	reason := ring.Reason(u.Reason)
	if reason >= ring.ReasonCount || u.Count == 0 || u.Count > kind.MostCount || !kind.SoundTime(u.SubmitNS) || !soundIndex(u.Index) {
		c.tally.refused++
		return nil
	}
	queue := c.known(c.tables.queues.has(u.Queue), u.Queue)
	c.tally.untimed[reason] += u.Count
	if reason != ring.ReasonAfterDetach {
		a := c.coverage.of(queue)
		a.Untimed += u.Count
		a.changed = true
	}
	launch := uint32(0) // 0: unknown
	if u.Launch != 0 {
		launch = c.known(c.tables.launches.has(u.Launch), u.Launch)
	}
	c.untimed = append(c.untimed, tracedb.Untimed{
		Queue: queue, Launch: launch, TID: u.TID, Reason: u.Reason,
		Index: u.Index, Packets: u.Count, SubmitNS: u.SubmitNS,
	})
	return nil
}

func (c *Collector) lost(l *ring.LostRecord) error {
	if l.Count > kind.MostCount || !kind.SoundTime(l.FromNS) || !kind.SoundTime(l.UntilNS) {
		c.tally.refused++
		return nil
	}
	c.tally.lost += l.Count
	return c.sink.Lost(tracedb.Loss{Cause: CauseRingFull, Records: l.Count, FromNS: l.FromNS, UntilNS: l.UntilNS})
}

// soundIndex reports whether SQLite can store the index.
func soundIndex(index uint64) bool { return index <= math.MaxInt64 }

// known replaces an undefined id by 0, and counts it. A correct payload causes this, too, if
// a full ring discarded the definition.
func (c *Collector) known(defined bool, id uint32) uint32 {
	if defined {
		return id
	}
	c.tally.undefined++
	return 0
}
