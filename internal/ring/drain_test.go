package ring_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/test/hang"
)

const maxRing = 1 << 20

func open(t testing.TB, p *ringtest.Producer) *ring.Reader {
	t.Helper()
	r, err := ring.Open(p.File, 1, maxRing)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func ignore(*ring.Record) error { return nil }

func TestDrainWrapsAround(t *testing.T) {
	p := ringtest.NewProducer(t, 1024)
	r := open(t, p)
	long := strings.Repeat("name", 40) // four lines: straddles the ring's end in time
	var index, next uint64
	var names int
	for range 100 {
		for ringtest.Put(p, ring.Dispatch{Index: index}) {
			index++
			if index%5 == 0 && !p.String(uint32(index), long) {
				break
			}
		}
		for {
			n, err := r.Drain(3, func(rec *ring.Record) error {
				switch rec.Type() {
				case ring.TypeDispatch:
					if rec.Dispatch().Index != next {
						t.Fatalf("dispatch %d, want %d", rec.Dispatch().Index, next)
					}
					next++
				case ring.TypeString:
					if string(rec.Text) != long {
						t.Fatalf("text %q", rec.Text)
					}
					names++
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				break
			}
		}
	}
	if next != index || names == 0 || r.Holes() != 0 {
		t.Errorf("%d of %d dispatches, %d names, %d holes", next, index, names, r.Holes())
	}
}

func TestDrainCountsHoles(t *testing.T) {
	p := ringtest.NewProducer(t, 4096)
	r := open(t, p)
	p.Hole(1) // counting from 1 is no hole
	ringtest.Put(p, ring.Dispatch{})
	p.Hole(7)
	ringtest.Put(p, ring.Dispatch{})
	if n, err := r.Drain(10, ignore); n != 2 || err != nil || r.Holes() != 7 {
		t.Errorf("drained %d, %v, %d holes", n, err, r.Holes())
	}
}

// Records of types that this version does not know are stepped over by their lines.
func TestDrainStepsOverUnknownTypes(t *testing.T) {
	p := ringtest.NewProducer(t, 1024)
	r := open(t, p)
	var known, unknown uint64
	for range 20 { // at every place of the ring, and across its end
		p.Unknown(200, 2)
		ringtest.Put(p, ring.Dispatch{Index: known})
		p.Unknown(60, 3)
		n, err := r.Drain(10, func(rec *ring.Record) error {
			switch rec.Type() {
			case ring.TypeDispatch:
				if rec.Dispatch().Index != known {
					t.Fatalf("dispatch %d, want %d", rec.Dispatch().Index, known)
				}
				known++
			case 200, 60:
				unknown += uint64(rec.Lines())
			}
			return nil
		})
		if n != 3 || err != nil {
			t.Fatalf("drained %d, %v", n, err)
		}
	}
	if known != 20 || unknown != 20*5 || r.Holes() != 0 {
		t.Errorf("%d dispatches, %d unknown lines, %d holes", known, unknown, r.Holes())
	}
}

func TestDrainStopsAtTheCallersError(t *testing.T) {
	p := ringtest.NewProducer(t, 4096)
	r := open(t, p)
	ringtest.Put(p, ring.Dispatch{})
	ringtest.Put(p, ring.Dispatch{})
	full := errors.New("disk full")
	if n, err := r.Drain(10, func(*ring.Record) error { return full }); n != 1 || !errors.Is(err, full) {
		t.Errorf("drained %d, %v", n, err)
	}
	if n, err := r.Drain(10, ignore); n != 1 || err != nil {
		t.Errorf("then drained %d, %v", n, err)
	}
}

// What a broken or hostile producer can do to the ring ends in ErrCorrupt and stays there.
func TestDrainRefuses(t *testing.T) {
	header := func(p *ringtest.Producer, typ ring.Type, lines byte) { p.Lines[0], p.Lines[2] = byte(typ), lines }
	for name, tamper := range map[string]func(p *ringtest.Producer){
		"head not on a line":  func(p *ringtest.Producer) { p.Header.Head = 65 },
		"head beyond a ring":  func(p *ringtest.Producer) { p.Header.Head = 4096 + 64 },
		"head goes back":      func(p *ringtest.Producer) { p.Header.Head = 0 },
		"head is huge":        func(p *ringtest.Producer) { p.Header.Head = 1<<64 - 64 },
		"no lines":            func(p *ringtest.Producer) { p.Header.Head = 128; header(p, ring.TypeDispatch, 0) },
		"lines not written":   func(p *ringtest.Producer) { p.Header.Head = 128; header(p, ring.TypePad, 3) },
		"two-line dispatch":   func(p *ringtest.Producer) { p.Header.Head = 256; header(p, ring.TypeDispatch, 2) },
		"two-line account":    func(p *ringtest.Producer) { p.Header.Head = 256; header(p, ring.TypeKindAccount, 2) },
		"unknown, no lines":   func(p *ringtest.Producer) { p.Header.Head = 128; header(p, 200, 0) },
		"unknown, beyond":     func(p *ringtest.Producer) { p.Header.Head = 128; header(p, 200, 2) },
		"sequence goes back":  func(p *ringtest.Producer) { p.Header.Head = 128; header(p, ring.TypeDispatch, 1); p.Lines[7] = 0xff },
		"string past lines":   func(p *ringtest.Producer) { p.Header.Head = 128; header(p, ring.TypeString, 1); p.Lines[12] = 49 },
		"string too long":     func(p *ringtest.Producer) { p.Header.Head = 128; header(p, ring.TypeString, 1); p.Lines[15] = 0x80 },
		"string in two lines": func(p *ringtest.Producer) { p.Header.Head = 256; header(p, ring.TypeString, 2); p.Lines[12] = 8 },
	} {
		t.Run(name, func(t *testing.T) {
			p := ringtest.NewProducer(t, 4096)
			r := open(t, p)
			ringtest.Put(p, ring.Dispatch{})
			if n, err := r.Drain(10, ignore); n != 1 || err != nil {
				t.Fatalf("an honest record: %d, %v", n, err)
			}
			p.Lines = p.Lines[64:] // the next record
			tamper(p)
			if _, err := r.Drain(10, ignore); !errors.Is(err, ring.ErrCorrupt) {
				t.Errorf("got %v", err)
			}
			p.Header.Head = 64
			if _, err := r.Drain(10, ignore); !errors.Is(err, ring.ErrCorrupt) {
				t.Errorf("then %v: a corrupt ring was believed again", err)
			}
		})
	}
}

// The producer's memory cannot move the reader: its tail is its own.
func TestDrainKeepsItsTail(t *testing.T) {
	p := ringtest.NewProducer(t, 4096)
	r := open(t, p)
	ringtest.Put(p, ring.Dispatch{Index: 1})
	ringtest.Put(p, ring.Dispatch{Index: 2})
	if _, err := r.Drain(1, ignore); err != nil {
		t.Fatal(err)
	}
	p.Header.Tail = 1 << 40
	_, err := r.Drain(1, func(rec *ring.Record) error {
		if rec.Dispatch().Index != 2 {
			t.Errorf("index %d", rec.Dispatch().Index)
		}
		return nil
	})
	if err != nil || p.Header.Tail != 128 {
		t.Errorf("%v, tail %d", err, p.Header.Tail)
	}
}

func TestDrainDoesNotAllocate(t *testing.T) {
	p := ringtest.NewProducer(t, 1<<16)
	r := open(t, p)
	var sum uint64
	add := func(rec *ring.Record) error { sum += rec.Dispatch().Index; return nil }
	allocs := testing.AllocsPerRun(10, func() {
		for range 64 {
			ringtest.Put(p, ring.Dispatch{Index: 1})
		}
		if _, err := r.Drain(64, add); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 {
		t.Errorf("%.0f allocations for 64 dispatches", allocs)
	}
}

func TestWaitEndsWithTheSession(t *testing.T) {
	p := ringtest.NewProducer(t, 4096)
	r := open(t, p)
	go p.End(ring.EndRecord{End: uint32(ring.EndDetach)})
	for !r.Ended() {
		r.Wait(hang.Limit)
	}
	if n, err := r.Drain(10, ignore); n != 1 || err != nil {
		t.Errorf("drained %d, %v", n, err)
	}
}

func BenchmarkDrain(b *testing.B) {
	p := ringtest.NewProducer(b, 1<<19)
	r := open(b, p)
	b.SetBytes(ring.LineBytes)
	for n := 0; n < b.N; {
		b.StopTimer()
		for ringtest.Put(p, ring.Dispatch{}) {
		}
		b.StartTimer()
		drained, err := r.Drain(b.N, ignore)
		if err != nil {
			b.Fatal(err)
		}
		n += drained
	}
}
