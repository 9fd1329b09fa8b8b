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

func (*slowSink) Agent(tracedb.Agent) error           { return nil }
func (*slowSink) Queue(tracedb.Queue) error           { return nil }
func (*slowSink) CodeObject(tracedb.CodeObject) error { return nil }
func (*slowSink) Launch(tracedb.Launch) error         { return nil }
func (*slowSink) Dispatches([]tracedb.Dispatch) error { return nil }
func (*slowSink) Untimed(tracedb.Untimed) error       { return nil }
func (*slowSink) Copies([]tracedb.Copy) error         { return nil }
func (*slowSink) Window(tracedb.Window) error         { return nil }
func (*slowSink) Lost(tracedb.Loss) error             { return nil }
func (*slowSink) End(tracedb.End) error               { return nil }

// draining runs a collector over p's ring, as startDrain does.
func draining(t *testing.T, p *ringtest.Producer, sink collector.Sink) *drain {
	t.Helper()
	reader, err := ring.Open(p.File, 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(context.Background())
	d := &drain{collector: collector.New(reader, sink), giveUp: giveUp, mostBytes: 1 << 20, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		d.result, d.err = d.collector.Run(ctx, nil)
		d.err = errors.Join(d.err, reader.Close())
	}()
	return d
}

const looks = int(endTimeout/watchPeriod) + 1 // after so many without progress it is over

// TestFinishOfLongDrain: however long the drain takes, it is waited for while it goes on.
func TestFinishOfLongDrain(t *testing.T) {
	p := ringtest.NewProducer(t, 4096)
	sink := &slowSink{flushing: make(chan struct{}), goOn: make(chan struct{})}
	d := draining(t, p, sink)
	tick, result, gaveUp := make(chan time.Time), make(chan error, 1), make(chan struct{})
	d.giveUp = func() { close(gaveUp) }
	<-sink.flushing
	go func() { result <- d.finish(tick) }()
	for range 5 {
		for range looks - 2 { // none of them sees progress but the first
			select {
			case tick <- time.Time{}:
			case <-gaveUp:
				t.Fatal("not waited for")
			}
		}
		ringtest.Put(p, ring.LostRecord{})
		sink.goOn <- struct{}{}
		<-sink.flushing // the record is through
	}
	p.End(ring.EndRecord{End: uint32(ring.EndDetach)})
	sink.goOn <- struct{}{}
	if err := <-result; err != nil || !d.result.Ended {
		t.Errorf("%v, ended %v", err, d.result.Ended)
	}
}

// TestFinishOfEndlessDrain: a target that goes on writing when it has detached is not
// listened to for longer than a payload has something to say.
func TestFinishOfEndlessDrain(t *testing.T) {
	p := ringtest.NewProducer(t, 4096)
	sink := &slowSink{flushing: make(chan struct{}), goOn: make(chan struct{})}
	d := draining(t, p, sink)
	tick, result := make(chan time.Time), make(chan error, 1)
	d.mostBytes = 2 * ring.LineBytes
	<-sink.flushing
	go func() { result <- d.finish(tick) }()
	for range looks {
		select {
		case err := <-result:
			if !errors.Is(err, errNoEnd) {
				t.Error(err)
			}
			return
		case <-sink.flushing:
		case sink.goOn <- struct{}{}:
			ringtest.Put(p, ring.LostRecord{})
		case tick <- time.Time{}:
		}
	}
	for range 10 * looks { // given up, it takes what is there
		select {
		case err := <-result:
			if !errors.Is(err, errNoEnd) {
				t.Error(err)
			}
			return
		case <-sink.flushing:
		case sink.goOn <- struct{}{}:
		}
	}
	t.Error("it is listened to for ever")
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
