package scratch

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

func init() { tracedb.AddSchema(schema) } // package all does, which imports this one

// script writes the events of a runtime into a ring, one per 10 ns.
type script struct {
	p  *ringtest.Producer
	at uint64
}

func (s *script) event(tid uint32, queue uint64, what eventKind, spoil ...func(*Event)) {
	s.at += 10
	e := Event{TimeNS: s.at, QueueAddress: queue, TID: tid, Event: uint16(what)}
	if what <= allocEnd {
		e.Dispatch = 5
	}
	if what == allocEnd {
		e.SizeBytes, e.Slots = 4096, 4
	}
	for _, how := range spoil {
		how(&e)
	}
	ringtest.PutAs(s.p, TypeEvent, e)
}

func (s *script) end() {
	ringtest.Put(s.p, ring.KindAccount{Kind: uint32(ring.KindScratchMemory), Begun: 100})
	s.p.End(ring.EndRecord{End: uint32(ring.EndDetach)})
}

// collect runs a collector over what produce writes into the ring, and returns the trace.
func collect(t *testing.T, produce func(s *script)) (string, collector.Result) {
	t.Helper()
	p := ringtest.NewProducer(t, 1<<20)
	produce(&script{p: p})
	r, err := ring.Open(p.File, 1, 1<<20)
	must(t, err)
	defer r.Close()
	db, path := create(t)
	gone := make(chan struct{})
	close(gone) // everything is written already
	result, err := collector.New(r, begin(t, db, 42), []*kind.Kind{Kind}).Run(context.Background(), gone)
	must(t, err, db.Close())
	return path, result
}

// expectOperations compares the operations of a trace.
func expectOperations(t *testing.T, path string, want ...string) {
	t.Helper()
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, `SELECT o.name, t.tid, queue_address, bytes, slots, dispatch, flags, start_ns, end_ns FROM rtl_scratch c
		JOIN rtl_scratch_operation o ON o.id = c.operation LEFT JOIN rtl_thread t ON t.id = c.thread_id ORDER BY c.id`, want...)
}

func refused(t *testing.T, path string, want int) {
	t.Helper()
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT records FROM rtl_loss WHERE cause = '"+collector.CauseRefused+"'", fmt.Sprint(want))
}

func flags(n uint32) func(*Event)    { return func(e *Event) { e.Flags = n } }
func losses(n uint32) func(*Event)   { return func(e *Event) { e.Losses = n } }
func dispatch(n uint64) func(*Event) { return func(e *Event) { e.Dispatch = n } }

func TestDecode(t *testing.T) {
	path, result := collect(t, func(s *script) {
		ringtest.PutAs(s.p, TypeCoverage, Coverage{Events: 6})
		s.event(7, 0x10, freeEnd) // it began before
		s.event(7, 0x10, allocStart)
		s.event(8, 0x20, allocStart, flags(1))
		s.event(7, 0x10, reclaimStart, flags(2)) // within the allocation
		s.event(7, 0x30, reclaimStart)
		s.event(7, 0x30, reclaimEnd)
		s.event(7, 0x10, reclaimEnd, flags(2))
		s.event(7, 0x10, allocEnd, flags(2))
		s.event(8, 0x20, freeStart)
		s.event(8, 0x20, freeStart) // the first has no end
		s.event(9, 0x20, freeEnd)   // of another thread
		s.event(8, 0x20, freeEnd, func(e *Event) { e.TimeNS = 1 })
		s.event(0, 0, allocStart)
		s.event(0, 0, allocEnd)
		s.end()
	})
	expectOperations(t, path,
		"free|7|16|NULL|NULL|NULL|0|NULL|10",
		"reclaim|7|48|NULL|NULL|NULL|0|50|60",
		"reclaim|7|16|NULL|NULL|NULL|2|40|70",
		"allocate|7|16|4096|4|5|2|20|80",
		"free|8|32|NULL|NULL|NULL|0|90|NULL",
		"free|9|32|NULL|NULL|NULL|0|NULL|110",
		"free|8|32|NULL|NULL|NULL|0|100|100",
		"allocate|NULL|NULL|4096|4|5|0|130|140",
		"allocate|8|32|NULL|NULL|5|1|30|NULL")
	account := tracedb.KindCoverage{Kind: "scratch-memory", Begun: 100, Timed: 14, Unexplained: 86}
	if len(result.Kinds) != 1 || result.Kinds[0] != account {
		t.Errorf("%+v", result.Kinds)
	}
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT session_id, events, buried FROM rtl_scratch_coverage", "1|6|0")
}

// What no payload writes is refused, and counted.
func TestImpossible(t *testing.T) {
	bad := []func(*Event){
		func(e *Event) { e.Event = uint16(eventKinds) },
		func(e *Event) { e.Event = 0xffff },
		func(e *Event) { e.Event = uint16(allocStart) }, // with bytes
		func(e *Event) { e.Event, e.Dispatch = uint16(reclaimEnd), 0 },
		func(e *Event) { e.Event, e.SizeBytes, e.Slots = uint16(freeStart), 0, 0 }, // with a dispatch
		func(e *Event) { e.TimeNS = 0 },
		func(e *Event) { e.TimeNS = 1 << 63 },
		func(e *Event) { e.SizeBytes = 1 << 63 },
		func(e *Event) { e.Slots = 1 << 63 },
	}
	path, _ := collect(t, func(s *script) {
		s.event(7, 0x10, allocStart)
		for _, spoil := range bad {
			s.event(7, 0x10, allocEnd, spoil)
		}
		ringtest.PutAs(s.p, TypeEvent, [2]Event{{TimeNS: 1}}) // two lines
		ringtest.PutAs(s.p, TypeCoverage+1, Coverage{})
		ringtest.PutAs(s.p, TypeCoverage, Coverage{Events: 7})
		ringtest.PutAs(s.p, TypeCoverage, Coverage{Events: 6, Buried: 7})
		for range mostDescribed + 1 {
			ringtest.PutAs(s.p, TypeCoverage, Coverage{Events: 6})
		}
		s.event(7, 0x10, allocEnd, dispatch(1<<63))
		s.end()
	})
	expectOperations(t, path,
		"allocate|7|16|NULL|NULL|5|0|10|NULL",
		"allocate|7|16|4096|4|9223372036854775807|0|NULL|110")
	refused(t, path, len(bad)+5)
}

// Where records may be missing, no operation is made up of two.
func TestLoss(t *testing.T) {
	path, _ := collect(t, func(s *script) {
		s.event(7, 0x10, freeStart)
		s.event(7, 0x10, freeEnd, losses(2))
		s.event(7, 0x10, allocStart, losses(2), dispatch(1))
		s.event(7, 0x10, allocEnd, losses(3), dispatch(2))
		s.event(7, 0x10, allocStart, losses(3), dispatch(3))
		s.event(7, 0x10, allocEnd, losses(4), dispatch(3))
		s.end()
	})
	expectOperations(t, path,
		"free|7|16|NULL|NULL|NULL|0|10|NULL",
		"free|7|16|NULL|NULL|NULL|0|NULL|20",
		"allocate|7|16|NULL|NULL|1|0|30|NULL",
		"allocate|7|16|4096|4|2|0|NULL|40",
		"allocate|7|16|4096|4|3|0|50|60")
}

// What is remembered of operations is bounded.
func TestBounds(t *testing.T) {
	p := newPairs()
	for i := range uint64(mostOpen + 2) {
		p.take(&Event{TimeNS: 1 + i, QueueAddress: i})
	}
	if len(p.done) != 2 || len(p.open) != mostOpen {
		t.Errorf("%d done, %d open", len(p.done), len(p.open))
	}
	p.take(&Event{TimeNS: 1 << 20, QueueAddress: 7, Event: uint16(allocEnd)})
	if o := p.done[2]; o.StartNS != 8 || o.EndNS != 1<<20 {
		t.Errorf("%+v", o)
	}
	p.finish()
	if len(p.done) != 2+mostOpen || len(p.open) != 0 {
		t.Errorf("%d done, %d open", len(p.done), len(p.open))
	}
}

// Whether scratch memory was to be recorded is known also where there was none.
func TestNothing(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		_, result := collect(t, func(s *script) {
			if recorded {
				ringtest.Put(s.p, ring.KindAccount{Kind: uint32(ring.KindScratchMemory)})
			}
			s.p.End(ring.EndRecord{})
		})
		if (len(result.Kinds) == 1) != recorded {
			t.Errorf("%t: %+v", recorded, result.Kinds)
		}
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func create(t *testing.T) (*tracedb.DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.db")
	db, err := tracedb.Create(tracedb.Place{Path: path})
	must(t, err)
	return db, path
}

func begin(t *testing.T, db *tracedb.DB, pid uint32) *tracedb.Session {
	t.Helper()
	s, err := db.Begin(tracedb.SessionInfo{PID: pid, Command: "serve"})
	must(t, err)
	return s
}
