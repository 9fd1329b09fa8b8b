package markers

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

func init() { tracedb.AddSchema(schema) } // package all does, which imports this one

// script writes the calls of an application into a ring, one per 10 ns.
type script struct {
	p  *ringtest.Producer
	at uint64
}

func (s *script) call(tid uint32, op Operation, text string, number uint64, spoil ...func(*recorded)) {
	s.at += 10
	r := recorded{Call: Call{TimeNS: s.at, TID: tid, Operation: uint16(op), TextBytes: uint16(len(text)), Range: number}}
	room := (*[unsafe.Sizeof(r)]byte)(unsafe.Pointer(&r))
	copy(room[unsafe.Offsetof(r.Text):], text)
	for _, how := range spoil {
		how(&r)
	}
	s.put(&r, (int(unsafe.Offsetof(r.Text))+len(text)+63)/64)
}

// put writes a record of this many lines.
func (s *script) put(r *recorded, lines int) {
	t := TypeMarker
	switch lines {
	case 1:
		ringtest.PutAs(s.p, t, r.Call)
	case 2:
		putLines[[128]byte](s.p, t, r)
	case 3:
		putLines[[192]byte](s.p, t, r)
	case 4:
		putLines[[256]byte](s.p, t, r)
	default:
		putLines[[320]byte](s.p, t, r)
	}
}

func putLines[T any](p *ringtest.Producer, t ring.Type, r *recorded) {
	ringtest.PutAs(p, t, *(*T)(unsafe.Pointer(r)))
}

func losses(n uint32) func(*recorded) { return func(r *recorded) { r.Losses = n } }
func cut(r *recorded)                 { r.TextCut = 1 }

func (s *script) end() {
	ringtest.Put(s.p, ring.KindAccount{Kind: uint32(ring.KindMarker), Begun: 100})
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

// expectMarkers compares the markers of a trace: form, text, level, threads, start, end, what is missing.
func expectMarkers(t *testing.T, path string, want ...string) {
	t.Helper()
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, `SELECT form, n.string, level, b.tid, e.tid, start_ns, end_ns, missing FROM rtl_marker m
		LEFT JOIN rocpd_string n ON n.id = m.name_id LEFT JOIN rtl_thread b ON b.id = m.thread_id
		LEFT JOIN rtl_thread e ON e.id = m.end_thread_id ORDER BY m.id`, want...)
}

func TestDecode(t *testing.T) {
	path, result := collect(t, func(s *script) {
		ringtest.PutAs(s.p, TypeCoverage, Coverage{Roctx64: uint32(Chained)})
		s.call(7, OpPop, "", 0) // its range began before
		s.call(7, OpPush, "outer", 0)
		s.call(8, OpPush, "other", 0)
		s.call(7, OpPush, "inner", 0)
		s.call(7, OpMark, "", 0)
		s.call(7, OpPop, "", 0)
		s.call(7, OpStart, "across", 1)
		s.call(7, OpPop, "", 0)
		s.call(8, OpStop, "", 1)
		s.call(9, OpStop, "", 5) // its start comes late
		s.at -= 20
		s.call(7, OpStart, "late", 5)
		s.call(8, OpStop, "", 3) // its range began before
		s.call(8, OpStart, "open", 9)
		ringtest.PutAs(s.p, TypeCoverage, Coverage{Roctx64: uint32(Taken)})
		s.end()
	})
	expectMarkers(t, path,
		"1|NULL|NULL|NULL|7|NULL|10|1",
		"0||2|7|7|50|50|0",
		"1|inner|1|7|7|40|60|0",
		"1|outer|0|7|7|20|80|0",
		"2|across|NULL|7|8|70|90|0",
		"2|late|NULL|7|9|90|100|0",
		"1|other|0|8|NULL|30|NULL|2",
		"2|open|NULL|8|NULL|110|NULL|2",
		"2|NULL|NULL|NULL|8|NULL|100|1")
	account := tracedb.KindCoverage{Kind: "marker", Begun: 100, Timed: 13, Unexplained: 87}
	if len(result.Kinds) != 1 || result.Kinds[0] != account {
		t.Errorf("%+v", result.Kinds)
	}
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT library, way FROM rtl_marker_library ORDER BY id", "0|2", "1|0", "0|3", "1|0")
}

// Messages of all lengths come whole, as UTF-8.
func TestTexts(t *testing.T) {
	var want []string
	path, _ := collect(t, func(s *script) {
		for _, n := range []int{0, 1, 23, 24, 25, 87, 88, 89, 151, 152, 153, 254, 255} {
			text := strings.Repeat("0123456789", 26)[:n]
			s.call(7, OpMark, text, 0)
			want = append(want, text)
		}
		s.call(7, OpMark, strings.Repeat("x", 253)+"\xe2\x82", 0, cut) // a cut €
		s.call(7, OpMark, "a\xffb", 0)
		s.call(7, OpMark, "größe\n\x1b[31m", 0)
		s.end()
	})
	want = append(want, strings.Repeat("x", 253)+"…", "a\ufffdb", "größe\n\x1b[31m")
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT string FROM rtl_marker m JOIN rocpd_string n ON n.id = m.name_id ORDER BY m.id", want...)
}

// What no payload writes is refused, and counted.
func TestImpossible(t *testing.T) {
	const bad = 15
	path, _ := collect(t, func(s *script) {
		s.call(7, OpPush, "good", 0)
		for _, spoil := range []func(*recorded){
			func(r *recorded) { r.Operation = uint16(operations) },
			func(r *recorded) { r.TextBytes = 256 },
			func(r *recorded) { r.TextBytes = 0xffff },
			func(r *recorded) { r.TextBytes = 25 }, // in one line
			func(r *recorded) { r.TextCut = 1 },
			func(r *recorded) { r.TextCut = 2 },
			func(r *recorded) { r.TimeNS = 0 },
			func(r *recorded) { r.TimeNS = 1 << 63 },
			func(r *recorded) { r.Range = 1 },
			func(r *recorded) { r.Text[2] = 0 },
			func(r *recorded) { r.Operation = uint16(OpPop) },
			func(r *recorded) { r.Operation = uint16(OpStop) },
		} {
			s.call(7, OpPush, "bad!", 0, spoil)
		}
		s.call(7, OpMark, strings.Repeat("x", 255), 0, func(r *recorded) { r.TextBytes = 3 }) // in five lines
		ringtest.PutAs(s.p, TypeCoverage, Coverage{Sdk: uint32(WayCount)})
		ringtest.PutAs(s.p, TypeCoverage+1, Coverage{})
		s.call(7, OpPop, "", 0)
		s.end()
	})
	expectMarkers(t, path, fmt.Sprintf("1|good|0|7|7|10|%d|0", 10*bad))
	read, err := tracedb.Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT records FROM rtl_loss WHERE cause = '"+collector.CauseRefused+"'", fmt.Sprint(bad))
}

// Where records may be missing, no range is made up of two.
func TestLoss(t *testing.T) {
	path, _ := collect(t, func(s *script) {
		s.call(7, OpPush, "a", 0, losses(4))
		s.call(7, OpPush, "b", 0, losses(4))
		s.call(8, OpPush, "of another thread", 0, losses(1))
		s.call(7, OpStart, "c", 1, losses(5))
		s.call(7, OpPop, "", 0, losses(5))
		s.call(7, OpPush, "d", 0, losses(5))
		s.call(7, OpPop, "", 0, losses(5))
		s.call(8, OpPop, "", 0, losses(1))
		s.call(8, OpStop, "", 2, losses(1))
		s.end()
	})
	expectMarkers(t, path,
		"1|a|0|7|NULL|10|NULL|3",
		"1|b|1|7|NULL|20|NULL|3",
		"1|NULL|NULL|NULL|7|NULL|50|3",
		"1|d|0|7|7|60|70|0",
		"1|of another thread|0|8|8|30|80|0",
		"2|c|NULL|7|NULL|40|NULL|3",
		"2|NULL|NULL|NULL|8|NULL|90|3")
}

// A number that comes twice ends no other range.
func TestRangeNumbers(t *testing.T) {
	path, _ := collect(t, func(s *script) {
		s.call(7, OpStart, "first", 1)
		s.call(7, OpStart, "second", 1)
		s.call(7, OpStop, "", 1)
		s.call(7, OpStop, "", 1)
		s.call(7, OpStop, "", 1)
		s.call(7, OpStart, "third", 1)
		s.end()
	})
	expectMarkers(t, path,
		"2|first|NULL|7|NULL|10|NULL|3",
		"2|second|NULL|7|7|20|30|0",
		"2|NULL|NULL|NULL|7|NULL|40|1",
		"2|NULL|NULL|NULL|7|NULL|50|1",
		"2|third|NULL|7|NULL|60|NULL|2")
}

// Threads that are not known are not taken for one.
func TestUnknownThreads(t *testing.T) {
	path, _ := collect(t, func(s *script) {
		s.call(0, OpPush, "a", 0)
		s.call(0, OpMark, "m", 0)
		s.call(0, OpPop, "", 0)
		s.end()
	})
	expectMarkers(t, path, "1|a|NULL|NULL|NULL|10|NULL|5", "0|m|NULL|NULL|NULL|20|20|0")
}

// What is remembered of ranges is bounded, and what is beyond the bounds is said.
func TestBounds(t *testing.T) {
	p := newPairs()
	missing := map[Missing]int{}
	at := uint64(0)
	take := func(tid uint32, op Operation, number uint64) {
		at++
		p.take(&Call{TID: tid, Operation: uint16(op), Range: number, TimeNS: at}, func() string { return "x" })
		for _, m := range p.done {
			missing[m.Missing]++
		}
		p.done = p.done[:0]
		if p.open > mostOpen || len(p.threads) > mostThreads || len(p.early) > mostEarly || len(p.waiting) > mostEarly {
			t.Fatalf("%d open, %d threads, %d early, %d waiting", p.open, len(p.threads), len(p.early), len(p.waiting))
		}
	}
	for range mostDepth + 3 {
		take(1, OpPush, 0)
	}
	for range mostDepth + 3 {
		take(1, OpPop, 0)
	}
	if missing[MissingRoom] != 3 || missing[MissingNothing] != mostDepth || p.open != 0 {
		t.Errorf("deep: %v", missing)
	}
	clear(missing)
	for i := range uint64(mostEarly + 1) {
		take(1, OpStop, i)
	}
	if missing[MissingStart] != mostEarly/2 {
		t.Errorf("early stops: %v", missing)
	}
	clear(missing)
	for i := range uint64(mostOpen + 2) {
		take(1, OpStart, 1<<32+i)
	}
	if missing[MissingRoom] != 2 {
		t.Errorf("many ranges: %v", missing)
	}
	clear(missing)
	for tid := range uint32(mostThreads + 2) {
		take(tid+1, OpPush, 0)
		take(tid+1, OpPop, 0)
	}
	if missing[MissingRoom] != mostThreads+2 || missing[MissingStart] != 0 {
		t.Errorf("many threads: %v", missing)
	}
	p.finish()
	if n := len(p.done); n != mostOpen+mostEarly/2+1 || p.open != 0 {
		t.Errorf("%d at the end, %d open", n, p.open)
	}
}

// Whether markers were to be recorded is known also where there were none.
func TestNoMarkers(t *testing.T) {
	path, result := collect(t, func(s *script) {
		ringtest.Put(s.p, ring.KindAccount{Kind: uint32(ring.KindMarker)})
		s.p.End(ring.EndRecord{})
	})
	expectMarkers(t, path)
	if len(result.Kinds) != 1 {
		t.Errorf("%+v", result.Kinds)
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
