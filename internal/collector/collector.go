// Package collector drains one ring into a Sink.
//
// It is the trust boundary: package ring delivers whole records of known types. This
// package checks that ids are defined before they are used, limits all tables whatever
// the target writes, and accounts for every published dispatch (coverage.go). A Sink gets
// only checked data.
package collector

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Sink stores the records; *tracedb.Session implements it. One goroutine makes all calls,
// and a batch is valid only during its call.
type Sink interface {
	Agent(tracedb.Agent) error
	Queue(tracedb.Queue) error
	CodeObject(tracedb.CodeObject) error
	Launch(tracedb.Launch) error
	Write(tracedb.Batch) error
	Kind(records int, write func(tracedb.KindWriter) error) error
	Window(tracedb.Window) error
	Mark(tracedb.Mark) error // the records passed so far are complete up to the mark
	Lost(tracedb.Loss) error
	Unavailable(tracedb.Unavailable) error
	Flush() error // called at least four times a second
	End(tracedb.End) error
}

const (
	batchDispatches = 4096
	drainRecords    = 16384

	// The collector drains a ring below its watermark at least every longestPeriod, so
	// that live figures change and a killed recorder loses little. The period is shorter
	// if the ring could fill within it at the rate fastest: the watermark's wake-up may
	// come too late for a small ring.
	longestPeriod  = 100 * time.Millisecond
	shortestPeriod = time.Millisecond
	fastest        = 4_000_000 // records per second
)

func periodFor(ringBytes uint64) time.Duration {
	fills := time.Duration(ringBytes/ring.LineBytes) * time.Second / fastest
	return min(max(fills/2, shortestPeriod), longestPeriod)
}

// Collector reads the ring of one session.
type Collector struct {
	reader *ring.Reader // nil: it replays a part
	part   *Part        // nil: it reads a ring
	sink   Sink
	period time.Duration
	keep   func(*ring.Record) // nil: nothing keeps the records
	beside func() error       // nil: nothing else writes into the session
	tell   func(tracedb.Unavailable)
	passes atomic.Uint64

	tables   tables
	coverage coverage
	batch    []tracedb.Dispatch
	untimed  []tracedb.Untimed
	filter   *filtering                       // nil: no filter
	decoders [ring.KindsMax]kind.Decoder      // by ring.Kind; nil: an unknown kind
	accounts [ring.KindsMax]*ring.KindAccount // by ring.Kind; nil: not received
	missing  []tracedb.Unavailable            // kinds that cannot be recorded
	end      *ring.EndRecord
	asked    atomic.Pointer[Ending]
	rounds   rounds // the worker's
	lanes    rounds // of records of calls
	tally    tally
	stats    stats

	kinds   []*kind.Kind // of periods
	periods *periods     // nil: one session without a schedule
}

// New returns a collector for dispatches and records of the given kinds; Run does the work.
func New(reader *ring.Reader, sink Sink, kinds []*kind.Kind) *Collector {
	c := newCollector(sink, kinds)
	c.reader, c.period = reader, periodFor(reader.SizeBytes())
	return c
}

func newCollector(sink Sink, kinds []*kind.Kind) *Collector {
	c := &Collector{
		sink:     sink,
		rounds:   rounds{now: boottimeNS},
		lanes:    rounds{now: boottimeNS},
		coverage: coverage{},
		batch:    make([]tracedb.Dispatch, 0, batchDispatches),
	}
	c.makeDecoders(kinds)
	return c
}

func (c *Collector) makeDecoders(kinds []*kind.Kind) {
	for _, k := range kinds {
		c.decoders[k.ID] = k.NewDecoder(ofKind{c})
	}
}

// CountRounds makes the collector mark up to which time the records are complete. counters returns the payload's counters,
// which have its worker's rounds. Call CountRounds before Run.
func (c *Collector) CountRounds(counters func() (c ring.Counters, known bool)) {
	c.rounds.count = countBy(counters, func(c *ring.Counters) uint64 { return c.WorkerRounds })
	c.lanes.count = countBy(counters, func(c *ring.Counters) uint64 { return c.LaneRounds })
}

// Tell makes the collector call tell for each kind that cannot be recorded, in each window of a schedule. Call Tell before Run.
func (c *Collector) Tell(tell func(tracedb.Unavailable)) { c.tell = tell }

// Keep makes the collector call keep for each record from the ring, in their order, before it decodes it.
// Call Keep before Run.
func (c *Collector) Keep(keep func(*ring.Record)) { c.keep = keep }

// Passes returns how often everything that was in the ring has been read. When it has grown by two, what was in the ring at
// first has been read. Any goroutine may call it.
func (c *Collector) Passes() uint64 { return c.passes.Load() }

// Beside makes the collector call write in each round, on the goroutine on which it uses the session: for rows that do not
// come from the ring. Call Beside before Run.
func (c *Collector) Beside(write func() error) { c.beside = write }

func (c *Collector) holes() uint64 {
	if c.reader == nil {
		return c.part.Holes
	}
	return c.reader.Holes()
}

// Run drains the ring until the session's last record, or until gone is closed
// (the target has exited) or ctx is done, and then drains it once more. If the ring is
// corrupt, it still closes the session in the sink, and returns an error together with the
// Result up to that point.
func (c *Collector) Run(ctx context.Context, gone <-chan struct{}) (Result, error) {
	err := c.drainAll(ctx, gone)
	if err == nil || errors.Is(err, ring.ErrCorrupt) {
		finish := c.finish
		if c.periods != nil {
			finish = c.finishAll
		}
		result, finishErr := finish(err)
		return result, errors.Join(err, finishErr)
	}
	if c.periods != nil {
		return c.periods.total, err
	}
	return c.result(), err
}

func (c *Collector) drainAll(ctx context.Context, gone <-chan struct{}) error {
	for {
		// Checked before the drain, so that the drain gets everything written before.
		last := c.reader.Ended() || ctx.Err() != nil || closed(gone)
		c.rounds.look()
		c.lanes.look()
		before := c.reader.ConsumedBytes()
		if err := c.drain(); err != nil {
			return err
		}
		full := c.reader.ConsumedBytes()-before >= c.reader.SizeBytes()/2
		c.rounds.drained(full)
		c.lanes.drained(full)
		if err := c.mark(); err != nil {
			return err
		}
		c.passes.Add(1)
		if c.beside != nil {
			if err := c.beside(); err != nil {
				return err
			}
		}
		if last || c.end != nil {
			return nil
		}
		if c.sink != nil {
			if err := c.sink.Flush(); err != nil {
				return err
			}
		}
		c.reader.Wait(c.period)
	}
}

func (c *Collector) mark() error {
	if c.periods != nil && !c.periods.open {
		return nil
	}
	return c.sink.Mark(tracedb.Mark{UntilNS: c.rounds.markNS, Coverage: c.coverage.soFar()})
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// drain empties the ring once. It reads at most the ring's size, so that it returns even
// if the producer never stops.
func (c *Collector) drain() error {
	for limit := int(c.reader.SizeBytes() / ring.LineBytes); limit > 0 && c.end == nil; {
		n, err := c.reader.Drain(min(limit, drainRecords), c.record)
		if flushErr := errors.Join(c.flushFiltered(), c.flushKinds()); err == nil {
			err = flushErr
		}
		c.publish()
		if err != nil || n == 0 {
			return err
		}
		limit -= n
	}
	return nil
}

// flushBatch passes the collected dispatches to the sink, with the accounts that count them.
// Definitions go to the sink at once, before the batch that
// uses them.
func (c *Collector) flushBatch() error {
	b := tracedb.Batch{Dispatches: c.batch, Untimed: c.untimed, Filtered: c.filter.intervals()}
	if len(b.Dispatches)+len(b.Untimed)+len(b.Filtered) == 0 {
		return nil
	}
	return c.writeBatch(b)
}

// flushFiltered is flushBatch with the counts of filtered kernels.
func (c *Collector) flushFiltered() error {
	left := c.filter.counts()
	if len(left) == 0 {
		return c.flushBatch()
	}
	return c.writeBatch(tracedb.Batch{Dispatches: c.batch, Untimed: c.untimed, Filtered: c.filter.intervals(), Left: left})
}

func (c *Collector) writeBatch(b tracedb.Batch) error {
	b.Coverage = c.coverage.soFar()
	err := c.sink.Write(b)
	c.batch, c.untimed = c.batch[:0], c.untimed[:0]
	c.filter.written()
	return err
}
