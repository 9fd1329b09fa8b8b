package session

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// slowSink takes its time: it holds the collector up in each Flush until it may go on.
type slowSink struct {
	flushing chan struct{}
	goOn     chan struct{}
}

func (s *slowSink) Flush() error {
	s.flushing <- struct{}{}
	<-s.goOn
	return nil
}

func (*slowSink) Agent(tracedb.Agent) error                      { return nil }
func (*slowSink) Queue(tracedb.Queue) error                      { return nil }
func (*slowSink) CodeObject(tracedb.CodeObject) error            { return nil }
func (*slowSink) Launch(tracedb.Launch) error                    { return nil }
func (*slowSink) Write(tracedb.Batch) error                      { return nil }
func (*slowSink) Kind(int, func(tracedb.KindWriter) error) error { return nil }
func (*slowSink) Window(tracedb.Window) error                    { return nil }
func (*slowSink) Mark(tracedb.Mark) error                        { return nil }
func (*slowSink) Unavailable(tracedb.Unavailable) error          { return nil }
func (*slowSink) Lost(tracedb.Loss) error                        { return nil }
func (*slowSink) End(tracedb.End) error                          { return nil }

// draining runs a collector over p's ring, as startDrain does.
func draining(t *testing.T, p *ringtest.Producer, sink collector.Sink) *drain {
	t.Helper()
	reader, err := ring.Open(p.File, 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(context.Background())
	d := &drain{collector: collector.New(reader, sink, nil), giveUp: giveUp, mostBytes: drainParts * ring.LineBytes, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		d.result, d.err = d.collector.Run(ctx, nil)
		d.err = errors.Join(d.err, reader.Close())
	}()
	return d
}

const looks = int(endTimeout/watchPeriod) + 1 // after so many without progress it is over

// A patient is a finish of a drain from p, whose records come when it has almost given up.
type patient struct {
	*drain
	p      *ringtest.Producer
	sink   *slowSink
	tick   chan time.Time
	gaveUp chan struct{}
	result chan error
}

func finishing(t *testing.T, mostBytes uint64) *patient {
	t.Helper()
	p := ringtest.NewProducer(t, 4096)
	sink := &slowSink{flushing: make(chan struct{}), goOn: make(chan struct{})}
	w := &patient{
		drain: draining(t, p, sink), p: p, sink: sink,
		tick: make(chan time.Time), gaveUp: make(chan struct{}), result: make(chan error, 1),
	}
	giveUp := w.giveUp
	w.giveUp = func() { close(w.gaveUp); giveUp() }
	w.mostBytes = mostBytes
	<-sink.flushing
	go func() { w.result <- w.finish(w.tick) }()
	return w
}

// next has one record come. False: it was not waited for.
func (w *patient) next() bool {
	for range looks - 2 { // none of them sees progress but the first
		select {
		case w.tick <- time.Time{}:
		case <-w.gaveUp:
			return false
		}
	}
	ringtest.Put(w.p, ring.LostRecord{})
	w.sink.goOn <- struct{}{}
	<-w.sink.flushing // the record is through
	return true
}

// endsIncomplete lets it take what is there.
func (w *patient) endsIncomplete(t *testing.T) {
	t.Helper()
	close(w.sink.goOn)
	for {
		select {
		case <-w.sink.flushing:
		case err := <-w.result:
			if !errors.Is(err, errNoEnd) {
				t.Error(err)
			}
			return
		}
	}
}

// TestFinishOfLongDrain: however long the drain takes, it is waited for while it goes on.
func TestFinishOfLongDrain(t *testing.T) {
	w := finishing(t, drainParts*ring.LineBytes)
	for range 5 {
		if !w.next() {
			t.Fatal("not waited for")
		}
	}
	w.p.End(ring.EndRecord{End: uint32(ring.EndDetach)})
	w.sink.goOn <- struct{}{}
	if err := <-w.result; err != nil || !w.drain.result.Ended {
		t.Errorf("%v, ended %v", err, w.drain.result.Ended)
	}
}

// TestFinishOfEndlessDrain: a target that goes on writing when it has detached is not
// listened to for longer than a payload has something to say, nor one that does so
// line by line.
func TestFinishOfEndlessDrain(t *testing.T) {
	for name, most := range map[string]uint64{"more than it can have": 2 * ring.LineBytes, "line by line": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			w := finishing(t, most)
			for range 5 {
				if !w.next() {
					w.endsIncomplete(t)
					return
				}
			}
			t.Error("it is listened to for ever")
		})
	}
}

// TestFinishWithoutProgress: where nothing comes any more, what is there is taken; the
// trace is complete if the last record is among it.
func TestFinishWithoutProgress(t *testing.T) {
	for _, ends := range []bool{false, true} {
		p := ringtest.NewProducer(t, 4096)
		sink := &slowSink{flushing: make(chan struct{}), goOn: make(chan struct{})}
		d := draining(t, p, sink)
		<-sink.flushing
		if ends {
			p.End(ring.EndRecord{End: uint32(ring.EndDetach)})
		}
		tick := make(chan time.Time, looks)
		for range looks {
			tick <- time.Time{}
		}
		giveUp := d.giveUp
		d.giveUp = func() {
			giveUp()
			sink.goOn <- struct{}{}
		}
		if err := d.finish(tick); ends != (err == nil) || ends != d.result.Ended {
			t.Errorf("last record %v: %v", ends, err)
		}
	}
}
