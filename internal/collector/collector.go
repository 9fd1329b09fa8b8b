// Package collector drains one ring into a Sink.
//
// It is the border of trust: the ring package promises whole records of known
// types, this one that ids were defined before they are used, that tables stay
// bounded whatever the target writes, and that what was published is accounted
// for dispatch by dispatch (coverage.go). What a Sink gets is sound.
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

// A Sink takes what was recorded; *tracedb.Session is one. Calls come from one
// goroutine, and batches are valid only during the call.
type Sink interface {
	Agent(tracedb.Agent) error
	Queue(tracedb.Queue) error
	CodeObject(tracedb.CodeObject) error
	Launch(tracedb.Launch) error
	Dispatches([]tracedb.Dispatch) error
	Untimed(tracedb.Untimed) error
	Kind(records int, write func(tracedb.KindWriter) error) error
	Window(tracedb.Window) error
	Mark(tracedb.Mark) error // what was given before is complete as far as it says
	Lost(tracedb.Loss) error
	Flush() error // called at least four times a second
	End(tracedb.End) error
}

const (
	batchDispatches = 4096
	drainRecords    = 16384

	// The ring is left alone below its watermark for at most longestPeriod, so
	// that live figures move and a killed recorder loses little, and for less
	// where it would fill meanwhile at fastest: the watermark's wake-up may come
	// too late for a small ring.
	longestPeriod  = 100 * time.Millisecond
	shortestPeriod = time.Millisecond
	fastest        = 4_000_000 // records per second
)

func periodFor(ringBytes uint64) time.Duration {
	fills := time.Duration(ringBytes/ring.LineBytes) * time.Second / fastest
	return min(max(fills/2, shortestPeriod), longestPeriod)
}

// A Collector reads one session's ring.
type Collector struct {
	reader *ring.Reader
	sink   Sink
	period time.Duration

	tables   tables
	coverage coverage
	batch    []tracedb.Dispatch
	decoders [ring.KindsMax]kind.Decoder      // by ring.Kind; nil: a kind that is not known
	accounts [ring.KindsMax]*ring.KindAccount // by ring.Kind; nil: none came
	end      *ring.EndRecord
	asked    atomic.Pointer[Ending]
	rounds   rounds
	tally    tally
	stats    stats
}

// New makes a collector that takes dispatches and records of the given kinds; Run does the
// work.
func New(reader *ring.Reader, sink Sink, kinds []*kind.Kind) *Collector {
	c := &Collector{
		reader:   reader,
		sink:     sink,
		rounds:   rounds{now: boottimeNS},
		period:   periodFor(reader.SizeBytes()),
		coverage: coverage{},
		batch:    make([]tracedb.Dispatch, 0, batchDispatches),
	}
	for _, k := range kinds {
		c.decoders[k.ID] = k.NewDecoder(ofKind{c})
	}
	return c
}

// CountRounds has the collector mark how far the records are complete. finished returns
// how many rounds the payload's worker has finished. It is called before Run.
func (c *Collector) CountRounds(finished func() (rounds uint64, known bool)) {
	c.rounds.count = finished
}

// Run drains the ring until the session's last record, or until gone is closed
// (the target has exited) or ctx is done, and then once more what is there. It
// closes the session in the sink also when the ring turns out to be corrupt;
// the error then says so, beside a Result that holds up to that point.
func (c *Collector) Run(ctx context.Context, gone <-chan struct{}) (Result, error) {
	err := c.drainAll(ctx, gone)
	if err == nil || errors.Is(err, ring.ErrCorrupt) {
		result, finishErr := c.finish(err)
		return result, errors.Join(err, finishErr)
	}
	return c.result(), err
}

func (c *Collector) drainAll(ctx context.Context, gone <-chan struct{}) error {
	for {
		// Asked before the drain: what was written before is then drained.
		last := c.reader.Ended() || ctx.Err() != nil || closed(gone)
		c.rounds.look()
		before := c.reader.ConsumedBytes()
		if err := c.drain(); err != nil {
			return err
		}
		c.rounds.drained(c.reader.ConsumedBytes()-before >= c.reader.SizeBytes()/2)
		if err := c.sink.Mark(tracedb.Mark{UntilNS: c.rounds.markNS, Coverage: c.coverage.soFar()}); err != nil {
			return err
		}
		if last || c.end != nil {
			return nil
		}
		if err := c.sink.Flush(); err != nil {
			return err
		}
		c.reader.Wait(c.period)
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// drain empties the ring once. It is bounded by the ring's size, so that a
// producer that never stops cannot keep it here.
func (c *Collector) drain() error {
	for limit := int(c.reader.SizeBytes() / ring.LineBytes); limit > 0 && c.end == nil; {
		n, err := c.reader.Drain(min(limit, drainRecords), c.record)
		if flushErr := errors.Join(c.flushBatch(), c.flushKinds()); err == nil {
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

// flushBatch hands over the dispatches gathered so far. Definitions go straight
// to the sink, which is right: a batch uses only what came before it.
func (c *Collector) flushBatch() error {
	if len(c.batch) == 0 {
		return nil
	}
	err := c.sink.Dispatches(c.batch)
	c.batch = c.batch[:0]
	return err
}
