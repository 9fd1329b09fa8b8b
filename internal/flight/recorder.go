package flight

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/trigger"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const (
	// lateness is how much later than it ended a kernel may reach the store, and how long a trigger waits
	// for the records to be complete up to the end of its window.
	lateness    = 2 * time.Second
	mostThreads = 1 << 16
	mostAsks    = 64
)

// Recorder is the flight recorder of one session, and the Sink of its collector.
type Recorder struct {
	config *Config
	host   Host
	kinds  []*kind.Kind
	begun  uint64 // CLOCK_BOOTTIME

	store       *store
	definitions *definitions
	set         *trigger.Set
	names       map[uint32]string // of threads, when they were first seen
	lastTID     uint32
	counters    []sample

	markNS  uint64
	pending *pending // decided, and not written yet
	restNS  uint64   // conditions fire again from then on
	ignored uint64

	asks  chan ask
	ended chan struct{}
	once  sync.Once
	busy  atomic.Pointer[pending] // being written
	group sync.WaitGroup
	bytes atomic.Uint64
}

// pending is a trigger that has fired.
type pending struct {
	trigger.Firing
	number  uint64
	ignored uint64
	waiting []chan Outcome
}

type ask struct {
	text string
	done chan Outcome
}

// sample is the counters at a time.
type sample struct {
	ns       uint64
	counters []tracedb.Counter
}

// New returns the flight recorder of a session whose hooks are active since fromNS. holes returns how
// many records are missing so far.
func New(c *Config, h Host, kinds []*kind.Kind, fromNS uint64, holes func() uint64) *Recorder {
	return &Recorder{
		config: c, host: h, kinds: kinds, begun: boottimeNS(),
		store:       newStore(c.KeepLast+c.KeepAfter+lateness, c.SizeBytes, fromNS, boottimeNS, holes),
		definitions: newDefinitions(kinds), set: trigger.NewSet(c.Conditions), names: map[uint32]string{},
		asks: make(chan ask, mostAsks), ended: make(chan struct{}),
	}
}

// Keep keeps a record: see collector.Keep.
func (r *Recorder) Keep(record *ring.Record) {
	if !r.definitions.add(record) {
		r.store.add(record)
	}
}

// SizeBytes returns the bytes that are kept. Any goroutine may call it.
func (r *Recorder) SizeBytes() uint64 { return r.bytes.Load() }

// Ask asks for a trace of the last records, for a reason. The outcome arrives once the trace is complete.
func (r *Recorder) Ask(reason string) <-chan Outcome {
	a := ask{reason, make(chan Outcome, 1)}
	select {
	case <-r.ended:
		a.done <- Outcome{Err: ErrEnded}
		return a.done
	default:
	}
	select {
	case r.asks <- a:
	default:
		a.done <- Outcome{Err: errBusy}
	}
	return a.done
}

// Agent, Queue, … implement collector.Sink: they look for triggers. The records themselves are kept by Keep.

func (r *Recorder) Agent(tracedb.Agent) error { return nil }

func (r *Recorder) Queue(q tracedb.Queue) error { r.set.Queue(q); return nil }

func (r *Recorder) CodeObject(tracedb.CodeObject) error { return nil }

func (r *Recorder) Launch(l tracedb.Launch) error { r.set.Launch(l); return nil }

func (r *Recorder) Window(tracedb.Window) error { return nil }

func (r *Recorder) Kind(int, func(tracedb.KindWriter) error) error { return nil }

func (r *Recorder) Lost(l tracedb.Loss) error { r.set.Lost(l.FromNS, l.UntilNS); return nil }

func (r *Recorder) Write(b tracedb.Batch) error {
	r.set.Kernels(b.Dispatches)
	for i := range b.Dispatches {
		if tid := b.Dispatches[i].TID; tid != r.lastTID {
			r.lastTID = tid
			r.nameThread(tid)
		}
	}
	return nil
}

// nameThread notes the name of a thread, which may have ended before a trace is written.
func (r *Recorder) nameThread(tid uint32) {
	if _, known := r.names[tid]; known {
		return
	}
	if len(r.names) >= mostThreads {
		clear(r.names)
	}
	r.names[tid] = r.host.Info().ThreadName(tid)
}

func (r *Recorder) Mark(m tracedb.Mark) error {
	r.markNS = max(r.markNS, m.UntilNS)
	return nil
}

// Flush is called several times a second.
func (r *Recorder) Flush() error {
	r.store.age()
	r.bytes.Store(r.store.bytes + uint64(cap(r.definitions.log)))
	r.sample()
	r.set.Settle(r.markNS, r.host.Idle())
	for _, f := range r.set.Take() {
		r.fire(f)
	}
	r.answer()
	if p := r.pending; p != nil && r.isDue(p) && r.busy.Load() == nil {
		r.pending = nil
		r.write(p)
	}
	return nil
}

// fire takes a condition that holds. While a trace is to be written, and for the time of one window after
// it, conditions are only counted: the next trace would be nearly the same.
func (r *Recorder) fire(f trigger.Firing) {
	if r.pending != nil || f.AtNS < r.restNS || r.config.IsSpent() {
		r.ignored++
		return
	}
	r.begin(f)
}

func (r *Recorder) begin(f trigger.Firing) {
	r.pending = &pending{Firing: f, number: r.config.written.Add(1), ignored: r.ignored}
	r.restNS = f.AtNS + uint64(r.config.KeepLast)
	r.ignored = 0
}

// answer takes the requests that have arrived. One for which a trace is about to be written gets that.
func (r *Recorder) answer() {
	for {
		select {
		case a := <-r.asks:
			switch {
			case r.pending == nil && r.config.IsSpent():
				a.done <- Outcome{Err: ErrSpent}
				continue
			case r.pending == nil:
				r.begin(trigger.Firing{Expression: a.text, AtNS: boottimeNS()})
			}
			r.pending.waiting = append(r.pending.waiting, a.done)
		default:
			return
		}
	}
}

// isDue reports whether the records of a trigger's window are complete, or will not be.
func (r *Recorder) isDue(p *pending) bool {
	end := p.AtNS + uint64(r.config.KeepAfter)
	return r.markNS >= end || boottimeNS() > end+uint64(lateness)
}

// End ends the session: a trigger that waits for its window gets what there is.
func (r *Recorder) End(e tracedb.End) error {
	r.markNS = max(r.markNS, e.UntilNS)
	for _, f := range r.set.Take() {
		r.fire(f)
	}
	r.answer()
	r.group.Wait() // for the trace that is being written
	if p := r.pending; p != nil {
		r.pending = nil
		r.write(p)
	}
	return nil
}

// TargetEnded writes a trace if the user wants one at the end of the target. The session has ended.
func (r *Recorder) TargetEnded(why string) {
	for _, c := range r.config.Conditions {
		if c.AtTargetsEnd && !r.config.IsSpent() {
			r.begin(trigger.Firing{Expression: c.Text, Value: why, AtNS: max(r.markNS, r.store.newestNS())})
			p := r.pending
			r.pending = nil
			r.write(p)
			return
		}
	}
}

// Close waits for the trace that is being written, and refuses further requests.
func (r *Recorder) Close() {
	r.once.Do(func() { close(r.ended) })
	r.group.Wait()
	for {
		select {
		case a := <-r.asks:
			a.done <- Outcome{Err: ErrEnded}
		default:
			return
		}
	}
}

func boottimeNS() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return uint64(t.Nano())
}
