package flight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
)

// Recorder is the flight recorder of one session, and the Sink of its collector. The collector's goroutine owns it; once the
// session has ended, its group does.
type Recorder struct {
	group  *Group
	config *Config
	host   Host
	kinds  []*kind.Kind
	begun  uint64 // CLOCK_BOOTTIME
	fromNS uint64 // the hooks are active

	cutBeside func() func(*tracedb.Session, uint64, uint64) error // nil: there is nothing beside the records

	store       *store
	definitions *definitions
	set         *trigger.Set
	names       map[uint32]string // of threads, when they were first seen
	lastTID     uint32
	counters    []sample

	markNS  uint64
	endedNS uint64 // 0: the session goes on
	reason  string // of its end
	gone    string // how its target has ended; "": it has not

	bytes atomic.Uint64

	naming   sync.Mutex
	released bool // the target cannot be asked any more
}

// sample is the counters at a time.
type sample struct {
	ns       uint64
	counters []tracedb.Counter
}

// New returns the flight recorder of a session whose hooks are active since fromNS, and adds it to the group. holes returns
// how many records are missing so far.
func (g *Group) New(h Host, kinds []*kind.Kind, fromNS uint64, holes func() uint64) *Recorder {
	c := g.config
	r := &Recorder{
		group: g, config: c, host: h, kinds: kinds, begun: boottimeNS(), fromNS: fromNS,
		store:       newStore(c.KeepLast+c.KeepAfter+lateness, fromNS, g.share.Load, boottimeNS, holes),
		definitions: newDefinitions(kinds), set: trigger.NewSet(c.Conditions), names: map[uint32]string{},
	}
	g.add(r)
	return r
}

// Keep keeps a record: see collector.Keep.
func (r *Recorder) Keep(record *ring.Record) {
	if !r.definitions.add(record) {
		r.store.add(record)
	}
}

// Ask asks the recorder's group for a trace.
func (r *Recorder) Ask(reason string) <-chan Outcome { return r.group.Ask(reason) }

// SizeBytes returns the bytes that are kept. Any goroutine may call it.
func (r *Recorder) SizeBytes() uint64 { return r.bytes.Load() }

// endedBytes returns the bytes that are kept of a session that has ended.
func (r *Recorder) endedBytes() uint64 { return r.store.sizeOf() + uint64(cap(r.definitions.log)) }

// Agent, Queue, … implement collector.Sink: they look for triggers. The records themselves are kept by Keep.

func (r *Recorder) Agent(tracedb.Agent) error { return nil }

func (r *Recorder) Queue(q tracedb.Queue) error { r.set.Queue(q); return nil }

func (r *Recorder) CodeObject(tracedb.CodeObject) error { return nil }

func (r *Recorder) Launch(l tracedb.Launch) error { r.set.Launch(l); return nil }

func (r *Recorder) Window(tracedb.Window) error { return nil }

func (r *Recorder) Kind(int, func(tracedb.KindWriter) error) error { return nil }

func (r *Recorder) Lost(l tracedb.Loss) error { r.set.Lost(l.FromNS, l.UntilNS); return nil }

func (r *Recorder) Unavailable(tracedb.Unavailable) error { return nil }

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

// threadName asks the target for the name of a thread; "": it is not known.
func (r *Recorder) threadName(tid uint32) string {
	r.naming.Lock()
	defer r.naming.Unlock()
	if r.released {
		return ""
	}
	return r.host.Info().ThreadName(tid)
}

// Release returns when nothing of the host is used any more. The session has ended.
func (r *Recorder) Release() {
	r.naming.Lock()
	defer r.naming.Unlock()
	r.released = true
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
		r.group.fire(r, f)
	}
	r.group.look(r)
	return nil
}

// End ends the session. Its records stay in the group as long as a trace may need them.
func (r *Recorder) End(e tracedb.End) error {
	r.markNS, r.reason, r.endedNS = max(r.markNS, e.UntilNS), cmp.Or(e.Reason, tracedb.EndTriggered), boottimeNS()
	r.store.close()
	for _, f := range r.set.Take() {
		r.group.fire(r, f)
	}
	r.group.end(r)
	return nil
}

// TargetEnded makes the group write a trace if the user wants one at the end of a target. The session has ended.
func (r *Recorder) TargetEnded(why string) {
	r.group.targetEnded(r, why)
}

// sample keeps the counters, so that a trace can have those of its window.
func (r *Recorder) sample() {
	now := boottimeNS()
	step := max(uint64(r.store.keep)/(mostSamples-2), uint64(leastSampled))
	if n := len(r.counters); n > 0 && now-r.counters[n-1].ns < step {
		return
	}
	if len(r.counters) == mostSamples {
		r.counters = slices.Delete(r.counters, 0, 1)
	}
	r.counters = append(r.counters, sample{now, r.host.Counters()})
}

// mostSamples is how many times the counters are kept.
const (
	mostSamples  = 128
	leastSampled = 50 * time.Millisecond
)

// counted returns the counters of the time from fromNS until now: of queues all, of other things the change.
func (r *Recorder) counted(fromNS uint64) []tracedb.Counter {
	before := map[string]uint64{}
	for _, s := range r.counters {
		if s.ns > fromNS {
			break
		}
		for _, c := range s.counters {
			before[c.Name] = c.Value
		}
	}
	now := r.latest()
	for i, c := range now {
		if !strings.HasPrefix(c.Name, "queues_") {
			now[i].Value -= min(before[c.Name], c.Value)
		}
	}
	return now
}

// latest returns the counters of now, or the last ones of a session that has ended.
func (r *Recorder) latest() []tracedb.Counter {
	if r.endedNS == 0 {
		return r.host.Counters()
	}
	if n := len(r.counters); n > 0 {
		return slices.Clone(r.counters[n-1].counters)
	}
	return nil
}

// beside writes what does not come from the ring, of a time.
type beside func(s *tracedb.Session, fromNS, untilNS uint64) error

// Beside makes the traces have what does not come from the ring: cut returns what writes the rows that are kept at the call.
// Call Beside before the first record comes.
func (r *Recorder) Beside(cut func() func(s *tracedb.Session, fromNS, untilNS uint64) error) {
	r.cutBeside = cut
}

func (r *Recorder) beside() beside {
	if r.cutBeside == nil {
		return nil
	}
	return r.cutBeside()
}

// isDue reports whether the records of a trigger's window are complete, or will not be.
func (r *Recorder) isDue(p *pending) bool {
	end := p.AtNS + uint64(r.config.KeepAfter)
	return r.markNS >= end || boottimeNS() > end+uint64(lateness)
}

// who returns the process for messages about one of several; "": there is one.
func (r *Recorder) who() string {
	if r.group.host.Targets == nil {
		return ""
	}
	return fmt.Sprintf("pid %d", r.host.PID)
}

func boottimeNS() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return uint64(t.Nano())
}
