package collector

import (
	"errors"

	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Part is a part of a session whose records were kept (Keep), while the session goes on.
type Part struct {
	// Each calls visit with each record: definitions first, then the records in their order.
	Each        func(visit func(*ring.Record) error) error
	Holes       uint64 // missing sequence numbers among the records
	Reason      string // why the part ends
	WindowEndNS uint64 // of the part's declared window; CLOCK_BOOTTIME
	UntilNS     uint64 // see tracedb.Mark
	Filter      *filter.Filter
	BeginNS     uint64 // of the part's declared window: the filter counts from there
}

// Replay passes the records of a part to the sink, as Run passes those of a ring. The windows of
// queues that the part leaves open stay open in the accounts.
func Replay(p Part, sink Sink, kinds []*kind.Kind) (Result, error) {
	c := newCollector(sink, kinds)
	c.part = &p
	c.Filter(p.Filter, func() uint64 { return p.BeginNS })
	n := 0
	err := p.Each(func(r *ring.Record) error {
		if err := c.record(r); err != nil {
			return err
		}
		if n++; n%drainRecords != 0 {
			return nil
		}
		return errors.Join(c.flushFiltered(), c.flushKinds(), sink.Flush())
	})
	if err = errors.Join(err, c.flushFiltered(), c.flushKinds()); err != nil {
		return c.result(), err
	}
	return c.finish(nil)
}

// end describes the end of the part: its session goes on.
func (p *Part) end(r Result) tracedb.End {
	return tracedb.End{Reason: p.Reason, WindowEndNS: p.WindowEndNS, UntilNS: p.UntilNS, Coverage: r.Coverage, Kinds: r.Kinds}
}
