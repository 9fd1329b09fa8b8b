package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/flight"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// drain copies one session's records from the ring into the trace.
type drain struct {
	collector *collector.Collector
	session   *tracedb.Session   // nil: a flight recorder keeps the records
	flight    *flight.Recorder   // nil: they go into the trace at once
	windows   *windows           // nil: no schedule
	giveUp    context.CancelFunc // takes the records that are there, and ends
	mostBytes uint64             // the most that a payload can hold when it has detached
	thread    lowPriority
	done      chan struct{}
	users     sync.WaitGroup // requests that use it, see Commands
	result    collector.Result
	err       error
}

func (r *recording) startDrain() (*drain, error) {
	snapshot := r.link.control.Snapshot()
	if r.link.isLost() {
		return nil, failure.ErrTakenOver
	}
	limit, err := r.o.ringBytes()
	if err != nil {
		return nil, err
	}
	reader, err := resident.OpenRing(r.Target, snapshot, limit)
	if err != nil {
		return nil, err
	}
	d := &drain{mostBytes: r.o.heldBytes(limit), done: make(chan struct{})}
	if err := r.openSink(d, reader, snapshot); err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	r.observe(d)
	// The caller's context must end the window only, not the drain.
	ctx, giveUp := context.WithCancel(context.Background())
	d.giveUp = giveUp
	d.collector.CountRounds(func() (ring.Counters, bool) { return r.link.control.Counters(), !r.link.isLost() })
	d.collector.Tell(r.warnUnavailable())
	d.thread.run(func() {
		defer close(d.done)
		d.result, d.err = d.collector.Run(ctx, r.watch.gone)
		d.err = errors.Join(d.err, reader.Close())
	})
	return d, nil
}

// openSink opens what gets the records: a session of the trace, or a flight recorder.
func (r *recording) openSink(d *drain, reader *ring.Reader, s ring.Snapshot) (err error) {
	if r.o.Flight != nil {
		d.flight = r.flight.New(r.flightHost(s), all.Kinds, soundArming(s.ArmedNS, boottimeNS()), reader.Holes)
		d.collector = collector.New(reader, d.flight, all.Kinds)
		d.collector.Keep(d.flight.Keep)
		return nil
	}
	if len(r.o.Schedule) > 0 {
		d.windows = &windows{recording: r, snapshot: s}
		d.collector = collector.NewOfSchedule(reader, d.windows, all.Kinds)
		d.collector.Filter(r.o.Filter, nil)
		return nil
	}
	info := r.info(s)
	if d.session, err = r.trace.db.Begin(info); err != nil {
		return err
	}
	d.collector = collector.New(reader, d.session, all.Kinds)
	d.collector.Filter(r.o.Filter, r.filterFrom(info.ArmedNS))
	return d.session.Filters(filterSettings(r.o.Filter))
}

// sizeBytes returns the size of the trace, or of what a flight recorder keeps.
func (d *drain) sizeBytes(r *recording) uint64 {
	if d.flight != nil {
		return d.flight.SizeBytes()
	}
	return r.trace.sizeBytes()
}

// settle finds the session for what does not come from the ring. The drain is done.
func (d *drain) settle(reason string) (err error) {
	if d.windows != nil {
		d.session, err = d.windows.session(reason)
	}
	return err
}

// drainParts is the number of parts of mostBytes; the wait restarts with each part that
// arrives. A slow disk can write a part of this size in time.
const (
	drainParts    = 100
	mostPartBytes = 16 << 20
)

// taken counts the parts that arrive from now on. A hostile target could write records for
// ever, or one line at a time: counting parts up to drainParts limits both.
func (d *drain) taken() func() uint64 {
	from, step := d.collector.Progress().RingBytes, min(max(d.mostBytes/drainParts, ring.LineBytes), mostPartBytes)
	return func() uint64 { return min(d.collector.Progress().RingBytes-from, d.mostBytes) / step }
}

// errNoEnd is the error if the payload's last record of a detach did not arrive in time.
var errNoEnd = errors.New("the payload did not write its last records")

// finish waits for the last record, as long as other records arrive before it.
func (d *drain) finish(tick <-chan time.Time) error {
	taken, still := d.taken(), time.Duration(0)
	for seen := taken(); still < endTimeout; {
		select {
		case <-d.done:
			return nil
		case <-tick:
		}
		still += watchPeriod
		if now := taken(); now != seen {
			seen, still = now, 0
		}
	}
	d.giveUp()
	<-d.done
	if d.result.Ended { // the last record was among them
		return nil
	}
	return errNoEnd
}
