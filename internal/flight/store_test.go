package flight

import (
	"testing"
	"time"
	"unsafe"

	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// line is a record of one line.
func line[T any](t ring.Type, body T, set func(*T)) *ring.Record {
	var r ring.Record
	var raw [ring.LineBytes]byte
	h := ring.Header{Type: uint16(t), Lines: 1}
	b := body
	set(&b)
	copy(raw[:], bytesOf(&b))
	copy(raw[:], bytesOf(&h))
	r.Load(raw[:])
	return &r
}

func dispatch(queue, launch uint32, index, endNS uint64) *ring.Record {
	return line(ring.TypeDispatch, ring.Dispatch{}, func(d *ring.Dispatch) {
		d.Queue, d.Launch, d.Index, d.StartNS, d.EndNS, d.SubmitNS, d.TID = queue, launch, index, endNS-10, endNS, endNS-20, 7
	})
}

func window(kind ring.WindowKind, queue uint32, index, ns uint64) *ring.Record {
	return line(ring.TypeWindow, ring.Window{}, func(w *ring.Window) {
		w.Kind, w.Queue, w.Index, w.TimeNS, w.Raw, w.Others = uint32(kind), queue, index, ns, 3, 4
	})
}

// clock is a clock for tests.
type clock struct{ ns uint64 }

func (c *clock) now() uint64 { return c.ns }

func newTestStore(keep time.Duration, size uint64) (*store, *clock) {
	c := &clock{ns: 1e9}
	return newStore(keep, 1e9, func() uint64 { return size }, c.now, func() uint64 { return 0 }), c
}

// records returns what a part has, in its order.
func records(t *testing.T, p *part) (all []ring.Record) {
	t.Helper()
	if err := p.each(func(r *ring.Record) error { all = append(all, *r); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// The memory stays within the size, and everything after the floor is there.
func TestStoreIsBounded(t *testing.T) {
	const size = 2 << 20
	s, c := newTestStore(time.Hour, size)
	for i := range uint64(200_000) {
		c.ns += 100
		s.add(dispatch(1, 1, i, c.ns))
		if total := s.bytes + uint64(cap(s.open.bytes)); total > size+chunkBytes {
			t.Fatalf("%d bytes after %d records", total, i)
		}
	}
	cut := s.cut(0)
	defer cut.release()
	if cut.limit != tracedb.LimitSize {
		t.Errorf("limited by %s", cut.limit)
	}
	n := uint64(0)
	for _, r := range records(t, &part{cut: cut}) {
		n++
		if end := r.Dispatch().EndNS; end < cut.fromNS {
			t.Fatalf("a kernel of %d in a part from %d", end, cut.fromNS)
		}
	}
	if n+cut.older != 200_000 || n < 15_000 || (c.ns-cut.fromNS)/100 > n {
		t.Errorf("%d records kept, %d older; from %d to %d", n, cut.older, cut.fromNS, c.ns)
	}
}

// A slow target's records leave by age, and the memory of the store is used again.
func TestStoreAges(t *testing.T) {
	s, c := newTestStore(time.Second, 64<<20)
	var most uint64
	for i := range uint64(3000) {
		c.ns += 10e6
		s.add(dispatch(1, 1, i, c.ns))
		s.age()
		most = max(most, s.bytes)
	}
	if len(s.chunks) > 2*rotations || most > 64<<10 {
		t.Errorf("%d chunks, up to %d bytes", len(s.chunks), most)
	}
	cut := s.cut(c.ns - 500e6)
	defer cut.release()
	if cut.limit != tracedb.LimitTime || cut.fromNS != c.ns-500e6 {
		t.Errorf("from %d, limited by %s; now is %d", cut.fromNS, cut.limit, c.ns)
	}
}

// A part does not change while the store goes on, also when its memory is dropped.
func TestCutStays(t *testing.T) {
	s, c := newTestStore(time.Hour, 2<<20)
	for i := range uint64(20_000) {
		c.ns += 100
		s.add(dispatch(1, 1, i, c.ns))
	}
	p := &part{cut: s.cut(0)}
	before := len(records(t, p))
	for i := range uint64(100_000) {
		c.ns += 100
		s.add(dispatch(2, 1, i, c.ns))
	}
	for _, r := range records(t, p) {
		if r.Dispatch().Queue != 1 {
			t.Fatal("a later record in the part")
		}
	}
	if after := len(records(t, p)); after != before {
		t.Errorf("%d records, then %d", before, after)
	}
	p.release()
}

// Windows that were open when the part begins are opened there; their close, which counts the whole window,
// is left out, and a window inside the part is whole.
func TestWindows(t *testing.T) {
	s, c := newTestStore(time.Second, 64<<20)
	step := func(r *ring.Record) { c.ns += 300e6; s.add(r); s.close(); s.age() }
	step(window(ring.WindowOpen, 1, 0, c.ns))
	step(window(ring.WindowOpen, 2, 0, c.ns))
	step(window(ring.WindowClose, 2, 9, c.ns))
	for i := range uint64(5) {
		step(dispatch(1, 1, 100+i, c.ns))
	}
	step(window(ring.WindowClose, 1, 200, c.ns))
	step(window(ring.WindowOpen, 1, 300, c.ns))
	cut := s.cut(c.ns - 800e6)
	defer cut.release()
	var opened, closed []ring.Window
	for _, r := range records(t, &part{cut: cut}) {
		if w := r.Window(); r.Type() == ring.TypeWindow && ring.WindowKind(w.Kind) == ring.WindowOpen {
			opened = append(opened, *w)
		} else if r.Type() == ring.TypeWindow {
			closed = append(closed, *w)
		}
	}
	if len(opened) != 2 || len(closed) != 0 {
		t.Fatalf("%+v, %+v", opened, closed)
	}
	if w := opened[0]; w.Queue != 1 || w.TimeNS != cut.fromNS || w.Index < 100 || w.Index > 105 || w.Raw != 0 || w.Others != 0 {
		t.Errorf("the clipped window: %+v, the part begins at %d", w, cut.fromNS)
	}
	if w := opened[1]; w.Index != 300 || w.Raw != 3 {
		t.Errorf("the window inside: %+v", w)
	}
}

// Definitions stay for ever, launches as long as a payload can use them, in bounded memory.
func TestDefinitions(t *testing.T) {
	d := newDefinitions(all.Kinds)
	launch := func(id uint32) *ring.Record {
		return line(ring.TypeLaunch, ring.Launch{}, func(l *ring.Launch) { l.ID = id })
	}
	d.add(line(ring.TypeQueue, ring.Queue{}, func(q *ring.Queue) { q.ID = 1 }))
	if d.add(dispatch(1, 1, 0, 100)) {
		t.Error("a dispatch is no definition")
	}
	const n = mostDefinitions/ring.LineBytes + 100_000
	for id := range uint32(n) {
		d.add(launch(1 + id))
		if len(d.log) > mostDefinitions {
			t.Fatalf("%d bytes", len(d.log))
		}
	}
	s, _ := newTestStore(time.Hour, 2<<20)
	s.add(dispatch(1, n, 0, 2e9))
	s.add(dispatch(1, n-60_000, 1, 2e9))
	cut := s.cut(0)
	defer cut.release()
	var launches, queues int
	for _, r := range records(t, &part{cut: cut, definitions: d.log}) {
		switch r.Type() {
		case ring.TypeLaunch:
			launches++
		case ring.TypeQueue:
			queues++
		}
	}
	if launches != 2 || queues != 1 {
		t.Errorf("%d launches and %d queues are defined, 2 and 1 are used", launches, queues)
	}
}

func bytesOf[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }
