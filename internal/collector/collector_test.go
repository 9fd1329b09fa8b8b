package collector

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/copies"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// memory is a Sink that keeps everything.
type memory struct {
	agents      []tracedb.Agent
	queues      []tracedb.Queue
	codeObjects []tracedb.CodeObject
	launches    []tracedb.Launch
	dispatches  []tracedb.Dispatch
	untimed     []tracedb.Untimed
	windows     []tracedb.Window
	kindRecords int
	losses      []tracedb.Loss
	unavailable []tracedb.Unavailable
	marks       []tracedb.Mark
	ends        []tracedb.End
	full        error // what Write answers
	apart       int   // calls of Write with other accounts than rows
}

func (m *memory) Agent(a tracedb.Agent) error { m.agents = append(m.agents, a); return nil }
func (m *memory) Queue(q tracedb.Queue) error { m.queues = append(m.queues, q); return nil }
func (m *memory) CodeObject(o tracedb.CodeObject) error {
	m.codeObjects = append(m.codeObjects, o)
	return nil
}
func (m *memory) Launch(l tracedb.Launch) error { m.launches = append(m.launches, l); return nil }
func (m *memory) Unavailable(u tracedb.Unavailable) error {
	m.unavailable = append(m.unavailable, u)
	return nil
}
func (m *memory) Lost(l tracedb.Loss) error { m.losses = append(m.losses, l); return nil }
func (m *memory) End(e tracedb.End) error   { m.ends = append(m.ends, e); return nil }
func (m *memory) Mark(k tracedb.Mark) error { m.marks = append(m.marks, k); return nil }
func (m *memory) Flush() error              { return nil }

// Window keeps each window once, as a trace does.
func (m *memory) Window(w tracedb.Window) error {
	if n := len(m.windows); w.Closed && n > 0 && m.windows[n-1].Queue == w.Queue && !m.windows[n-1].Closed {
		m.windows = m.windows[:n-1]
	}
	m.windows = append(m.windows, w)
	return nil
}

func (m *memory) Kind(records int, _ func(tracedb.KindWriter) error) error {
	m.kindRecords += records
	return nil
}

func (m *memory) Write(b tracedb.Batch) error {
	m.dispatches = append(m.dispatches, b.Dispatches...)
	m.untimed = append(m.untimed, b.Untimed...)
	m.marks = append(m.marks, tracedb.Mark{Coverage: b.Coverage})
	if timed, untimed := m.accounted(); timed != uint64(len(m.dispatches)) || untimed != m.counted() {
		m.apart++
	}
	return m.full
}

// accounted sums the newest account of each queue.
func (m *memory) accounted() (timed, untimed uint64) {
	newest := map[uint32]tracedb.Coverage{}
	for _, k := range m.marks {
		for _, c := range k.Coverage {
			newest[c.Queue] = c
		}
	}
	for _, c := range newest {
		timed, untimed = timed+c.Timed, untimed+c.Untimed
	}
	return timed, untimed
}

// counted returns the untimed dispatches that belong to a queue's account.
func (m *memory) counted() (n uint64) {
	for _, u := range m.untimed {
		if u.Reason != uint32(ring.ReasonAfterDetach) {
			n += u.Packets
		}
	}
	return n
}

func (m *memory) loss(cause string) (records uint64, said bool) {
	for _, l := range m.losses {
		if l.Cause == cause {
			records, said = records+l.Records, true
		}
	}
	return records, said
}

// collect runs a collector over what produce writes, to the end.
func collect(t *testing.T, produce func(p *ringtest.Producer)) (*memory, Result, error) {
	t.Helper()
	p := ringtest.NewProducer(t, 1<<16)
	produce(p)
	return run(t, p)
}

func run(t *testing.T, p *ringtest.Producer) (*memory, Result, error) {
	t.Helper()
	r, err := ring.Open(p.File, 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sink := &memory{}
	gone := make(chan struct{})
	close(gone) // everything is written already
	result, err := New(r, sink, nil).Run(context.Background(), gone)
	return sink, result, err
}

// define writes what the records of these tests refer to: agent 1, queue 1, launch 1.
func define(p *ringtest.Producer) {
	p.String(1, "gfx90a")
	p.String(2, "_Z4gemmPf.kd")
	ringtest.Put(p, ring.Agent{ID: 1, Name: 1})
	ringtest.Put(p, ring.Queue{ID: 1, Agent: 1})
	ringtest.Put(p, ring.Launch{ID: 1, Name: 2, Agent: 1})
}

func window(p *ringtest.Producer, kind ring.WindowKind, w ring.Window) {
	w.Queue, w.Kind = 1, uint32(kind)
	ringtest.Put(p, w)
}

func TestCoverageAddsUp(t *testing.T) {
	sink, result, err := collect(t, func(p *ringtest.Producer) {
		define(p)
		window(p, ring.WindowOpen, ring.Window{Index: 100, Raw: 9, TimeNS: 50})
		for i := range uint64(6) {
			ringtest.Put(p, ring.Dispatch{Queue: 1, Launch: 1, Index: 100 + i, StartNS: 100, EndNS: 200, SubmitNS: 90, TID: 7})
		}
		ringtest.Put(p, ring.Untimed{Queue: 1, Index: 106, Count: 3, Reason: uint32(ring.ReasonNoSignal)})
		ringtest.Put(p, ring.Untimed{Queue: 1, Index: 110, Count: 2, Reason: uint32(ring.ReasonAfterDetach)})
		window(p, ring.WindowClose, ring.Window{Index: 112, Dispatches: 9, Others: 1, After: 2, TimeNS: 300, Raw: 9})
		p.End(ring.EndRecord{End: uint32(ring.EndDetach), ArmedNS: 40, DetachedNS: 310})
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []tracedb.Coverage{{
		Queue: 1, Windows: 1, Dispatches: 9, Timed: 6, Untimed: 3, Others: 1, After: 2, RawBefore: 9,
	}}
	if !slices.Equal(result.Coverage, want) {
		t.Errorf("coverage %+v", result.Coverage)
	}
	if sink.apart != 0 {
		t.Errorf("%d batches have other accounts than rows", sink.apart)
	}
	if len(sink.losses) != 0 {
		t.Errorf("losses out of nothing: %+v", sink.losses)
	}
	if len(sink.dispatches) != 6 || sink.launches[0].Symbol != "_Z4gemmPf.kd" || sink.agents[0].Name != "gfx90a" {
		t.Errorf("%d dispatches, %+v, %+v", len(sink.dispatches), sink.launches, sink.agents)
	}
	if !result.Ended || result.End != ring.EndDetach || sink.ends[0].DetachedNS != 310 || !sink.windows[0].Closed {
		t.Errorf("end %+v, windows %+v", sink.ends, sink.windows)
	}
}

// Each way in which a session can be incomplete is said, with its number.
func TestIncompleteSessions(t *testing.T) {
	dispatch := ring.Dispatch{Queue: 1, Launch: 1, StartNS: 1, EndNS: 2, SubmitNS: 1}
	end := ring.EndRecord{End: uint32(ring.EndDetach)}
	for name, c := range map[string]struct {
		produce func(p *ringtest.Producer)
		cause   string
		records uint64
	}{
		"no end":                   {func(p *ringtest.Producer) {}, CauseNoEnd, 0},
		"no end behind a dispatch": {func(p *ringtest.Producer) { ringtest.Put(p, dispatch) }, CauseNoEnd, 0},
		"lost": {func(p *ringtest.Producer) {
			p.Hole(5)
			ringtest.Put(p, ring.LostRecord{Count: 5, FromNS: 1, UntilNS: 2})
			p.End(end)
		}, CauseRingFull, 5},
		"never made": {func(p *ringtest.Producer) {
			ringtest.Put(p, ring.LostRecord{Count: 5})
			p.End(ring.EndRecord{RecordsLost: 8})
		}, CauseUndelivered, 3},
		"a hole beside some never made": {func(p *ringtest.Producer) {
			p.Hole(3)
			p.End(ring.EndRecord{RecordsLost: 3})
		}, CauseHole, 3},
		"hole": {func(p *ringtest.Producer) {
			p.Hole(3)
			p.End(end)
		}, CauseHole, 3},
		"bad times": {func(p *ringtest.Producer) {
			ringtest.Put(p, ring.Dispatch{Queue: 1, Launch: 1, StartNS: 2, EndNS: 1})
			ringtest.Put(p, ring.Dispatch{Queue: 1, Launch: 1, StartNS: 2, EndNS: 1 << 63})
			p.End(end)
		}, CauseBadTimes, 2},
		"undefined": {func(p *ringtest.Producer) {
			d := dispatch
			d.Queue, d.Launch = 44, 0
			ringtest.Put(p, d)
			ringtest.Put(p, ring.Launch{ID: 9, Name: 77, Agent: 5})
			p.End(end)
		}, CauseUndefined, 4},
		"refused": {func(p *ringtest.Producer) {
			ringtest.Put(p, ring.Queue{ID: 1})
			ringtest.Put(p, ring.Queue{ID: 1 << 31})
			ringtest.Put(p, ring.Agent{})
			ringtest.Put(p, ring.Untimed{Queue: 1, Reason: 99, Count: 1})
			ringtest.Put(p, ring.Untimed{Queue: 1, Reason: 2, Count: 1 << 63})
			ringtest.Put(p, ring.Window{Queue: 1, Kind: 9})
			p.String(1, "again")
			ringtest.Put(p, ring.Dispatch{Queue: 1, Launch: 1, StartNS: 1, EndNS: 2, Index: 1 << 63})
			ringtest.Put(p, ring.Untimed{Queue: 1, Reason: 2, Count: 1, Index: 1 << 63})
			ringtest.Put(p, ring.Window{Queue: 1, Kind: uint32(ring.WindowOpen), Index: 1 << 63})
			p.End(end)
		}, CauseRefused, 10},
		"unknown types": {func(p *ringtest.Producer) {
			p.Unknown(200, 1)
			p.Unknown(60, 3)
			ringtest.Put(p, dispatch)
			p.Unknown(0xffff, 40)
			p.End(end)
		}, CauseUnknown, 3},
		"an account of no kind": {func(p *ringtest.Producer) {
			ringtest.Put(p, ring.KindAccount{Kind: ring.KindsMax})
			ringtest.Put(p, ring.KindAccount{Kind: 0, Begun: 1 << 63})
			ringtest.Put(p, ring.KindAccount{Kind: 3})
			ringtest.Put(p, ring.KindAccount{Kind: 3})
			p.End(end)
		}, CauseRefused, 3},
		"after the end": {func(p *ringtest.Producer) {
			p.End(end)
			ringtest.Put(p, dispatch)
		}, CauseAfterEnd, 1},
		"inconsistent window": {func(p *ringtest.Producer) {
			window(p, ring.WindowOpen, ring.Window{Index: 10})
			window(p, ring.WindowClose, ring.Window{Index: 20, Dispatches: 3})
			p.End(end)
		}, CauseInconsistent, 1},
	} {
		t.Run(name, func(t *testing.T) {
			sink, _, err := collect(t, func(p *ringtest.Producer) {
				define(p)
				c.produce(p)
			})
			if err != nil {
				t.Fatal(err)
			}
			if records, said := sink.loss(c.cause); !said || records != c.records {
				t.Errorf("%q: %d, said %t, want %d; all: %+v", c.cause, records, said, c.records, sink.losses)
			}
			for _, l := range sink.losses {
				if l.Cause == CauseNoEnd && l.FromNS != uint64(2*len(sink.dispatches)) {
					t.Errorf("lost from %d on, and the last dispatch ended at 2", l.FromNS)
				}
			}
			if len(sink.ends) != 1 {
				t.Errorf("%d ends", len(sink.ends))
			}
		})
	}
}

func TestAgentMayBeDefinedAfterItsUse(t *testing.T) {
	sink, _, err := collect(t, func(p *ringtest.Producer) {
		ringtest.Put(p, ring.Launch{ID: 1, Agent: 5})
		ringtest.Put(p, ring.Queue{ID: 1, Agent: 6})
		ringtest.Put(p, ring.Agent{ID: 5})
		p.End(ring.EndRecord{})
	})
	if err != nil || sink.launches[0].Agent != 5 || sink.queues[0].Agent != 6 {
		t.Errorf("%v, %+v, %+v", err, sink.launches, sink.queues)
	}
	if records, _ := sink.loss(CauseUndefined); records != 1 {
		t.Errorf("%d undefined, want agent 6", records)
	}
}

func TestMissingDispatchesAreUnexplained(t *testing.T) {
	_, result, err := collect(t, func(p *ringtest.Producer) {
		define(p)
		window(p, ring.WindowOpen, ring.Window{Index: 0})
		ringtest.Put(p, ring.Dispatch{Queue: 1, Launch: 1, StartNS: 1, EndNS: 2})
		window(p, ring.WindowClose, ring.Window{Index: 5, Dispatches: 5})
		p.End(ring.EndRecord{})
	})
	if err != nil || result.Coverage[0].Unexplained != 4 {
		t.Errorf("%v, %+v", err, result.Coverage)
	}
}

func TestWindowLeftOpen(t *testing.T) {
	sink, result, err := collect(t, func(p *ringtest.Producer) {
		define(p)
		window(p, ring.WindowOpen, ring.Window{Index: 0, TimeNS: 3})
		ringtest.Put(p, ring.Dispatch{Queue: 1, Launch: 1, StartNS: 1, EndNS: 2})
	})
	c := result.Coverage[0]
	if err != nil || c.WindowsOpen != 1 || c.Unexplained != 0 || len(sink.windows) != 1 || sink.windows[0].Closed {
		t.Errorf("%v, %+v, %+v", err, c, sink.windows)
	}
}

func TestCorruptRingStillEndsTheSession(t *testing.T) {
	p := ringtest.NewProducer(t, 1<<16)
	define(p)
	ringtest.Put(p, ring.Dispatch{Queue: 1, Launch: 1, StartNS: 1, EndNS: 2})
	p.Header.Head += 64 // a line of zeroes: padding of no lines
	sink, result, err := run(t, p)
	if !errors.Is(err, ring.ErrCorrupt) {
		t.Fatalf("got %v", err)
	}
	if _, said := sink.loss(CauseCorrupt); !said || result.Timed != 1 || len(sink.dispatches) != 1 || len(sink.ends) != 1 {
		t.Errorf("%+v, %+v", result, sink)
	}
}

func TestSinkErrorEndsTheRun(t *testing.T) {
	p := ringtest.NewProducer(t, 1<<16)
	define(p)
	ringtest.Put(p, ring.Dispatch{Queue: 1, Launch: 1, StartNS: 1, EndNS: 2})
	r, err := ring.Open(p.File, 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	full := errors.New("disk full")
	sink := &memory{full: full}
	if _, err := New(r, sink, nil).Run(context.Background(), nil); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

// A live producer on a small ring: wrap-around, back-pressure, wake-ups.
func TestLiveProducer(t *testing.T) {
	p := ringtest.NewProducer(t, 4096)
	r, err := ring.Open(p.File, 1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const dispatches = 5000
	go func() {
		define(p)
		for i := uint64(0); i < dispatches; {
			if ringtest.Put(p, ring.Dispatch{Queue: 1, Launch: 1, Index: i, StartNS: i, EndNS: i + 1}) {
				i++
			} else {
				p.Wake() // an honest worker wakes at the watermark
			}
		}
		for !p.End(ring.EndRecord{End: uint32(ring.EndDetach)}) {
			p.Wake()
		}
	}()
	sink := &memory{}
	c := New(r, sink, nil)
	result, err := c.Run(context.Background(), nil)
	if err != nil || result.Timed != dispatches || result.Holes != 0 {
		t.Fatalf("%v, %+v", err, result)
	}
	for i, d := range sink.dispatches {
		if d.Index != uint64(i) {
			t.Fatalf("dispatch %d has index %d", i, d.Index)
		}
	}
	if p := c.Progress(); p.Dispatches != dispatches || p.RingBytes < dispatches*ring.LineBytes {
		t.Errorf("progress %+v", p)
	}
}

// FuzzCollect: whatever lines a target writes, the collector ends, and says so in a session's end.
func FuzzCollect(f *testing.F) {
	f.Add([]byte{4, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0}, uint16(1))
	f.Add([]byte{1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0}, uint16(2))
	const whole = 7 // lines
	p := ringtest.NewProducer(f, 1<<16)
	p.String(1, "gfx90a")
	ringtest.Put(p, ring.Agent{ID: 1, Name: 1})
	ringtest.PutAs(p, copies.TypeCopy, copies.Copy{StartNS: 20, EndNS: 30, SubmitNS: 10, Bytes: 4096, To: 1, TID: 7, Direction: uint16(copies.HostToDevice)})
	p.Unknown(200, 2)
	ringtest.Put(p, ring.KindAccount{Kind: uint32(ring.KindMemoryCopy), Begun: 1, Timed: 1})
	p.End(ring.EndRecord{})
	f.Add(bytes.Clone(p.Lines[:whole*ring.LineBytes]), uint16(whole))
	f.Fuzz(func(t *testing.T, lines []byte, count uint16) {
		p := ringtest.NewProducer(t, 1<<16)
		copy(p.Lines, lines)
		p.Header.Head = uint64(count) % 1024 * ring.LineBytes
		sink, _, err := run(t, p)
		if err != nil && !errors.Is(err, ring.ErrCorrupt) {
			t.Fatal(err)
		}
		if len(sink.ends) != 1 {
			t.Fatalf("%d ends", len(sink.ends))
		}
	})
}
