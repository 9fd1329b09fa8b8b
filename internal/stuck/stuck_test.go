package stuck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rtl-attach/rtl-attach/internal/collectives"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// put writes words into memory.
func put(b []byte, words map[int]uint64) {
	for at, word := range words {
		binary.LittleEndian.PutUint64(b[at:], word)
	}
}

// minusOne and minusTwo are the kinds of doorbell signals.
const (
	minusOne = 1<<64 - 1
	minusTwo = 1<<64 - 2
)

// withQueue returns 64 KiB of memory with a queue at 0x1000, its doorbell at 0x2000 and its ring at 0x3000.
func withQueue(kind uint64) []byte {
	b := make([]byte, 64<<10)
	put(b, map[int]uint64{
		0x1000 + 8: 0x3000, 0x1000 + 16: 0x2000, 0x1000 + 24: 64, 0x1000 + 32: 7, 0x1000 + 56: 12, 0x1000 + 128: 10,
		0x2000: kind, 0x2000 + 48: 0x1000,
	})
	return b
}

func search(b []byte) ([]*rawQueue, Search) {
	m := target.Map{Start: 0, End: target.Addr(len(b)), Perms: "rw-p"}
	return findQueues(bytes.NewReader(b), []target.Map{m}, func(m target.Map, most uint64) ([]target.Span, error) {
		return []target.Span{{Start: m.Start, End: m.End}}, nil
	}, bounds{bytes: scanBytesMax, time: scanTimeMax})
}

// A queue is found by two objects that name each other's addresses, and by nothing less.
func TestFindQueues(t *testing.T) {
	for _, kind := range []uint64{minusOne, minusTwo} {
		found, s := search(withQueue(kind))
		if len(found) != 1 || found[0].id != 7 || found[0].read != 10 || found[0].write != 12 || found[0].slots != 64 || s.Bytes != 64<<10 {
			t.Errorf("kind %d: %+v, %+v", int64(kind), found, s)
		}
	}
	for name, words := range map[string]map[int]uint64{
		"a user's signal":         {0x2000: 1},
		"another queue's":         {0x2000 + 48: 0x1040},
		"another doorbell":        {0x1000 + 16: 0x2040},
		"a size of no power of 2": {0x1000 + 24: 65},
		"no size":                 {0x1000 + 24: 0},
		"no ring":                 {0x1000 + 8: 0},
		"a ring in the kernel":    {0x1000 + 8: 1 << 63},
		"another type":            {0x1000: 9},
		"outside of memory":       {0x2000 + 48: 1 << 40},
	} {
		b := withQueue(minusOne)
		if put(b, words); len(first(search(b))) != 0 {
			t.Errorf("%s: found", name)
		}
	}
}

func first(q []*rawQueue, _ Search) []*rawQueue { return q }

func TestMayHoldSignals(t *testing.T) {
	for m, want := range map[target.Map]bool{
		{Perms: "rw-p"}: true, {Perms: "r--p"}: false, {Perms: "rw-s", Inode: 1, Path: "/dev/dri/renderD128"}: true,
		{Perms: "rw-p", Inode: 1, Path: "/usr/lib/libc.so.6"}: false, {Perms: "rw-p", Path: "[stack]"}: false,
	} {
		if mayHoldSignals(m) != want {
			t.Errorf("%+v: %t", m, !want)
		}
	}
}

func TestStateOf(t *testing.T) {
	open, done, none := &Signal{Valid: true, Value: 1}, &Signal{Valid: true}, &Signal{}
	runs := []Packet{{Completion: open}}
	barrier := func(kind string, s ...*Signal) *Packet { return &Packet{Type: kind, Dependencies: s} }
	for _, c := range []struct {
		q    Queue
		err  error
		want State
	}{
		{Queue{Moved: true, Packet: &Packet{Type: "invalid"}}, nil, StateMoves},
		{Queue{}, nil, StateIdle},
		{Queue{}, errors.New("no"), StateUnreadable},
		{Queue{Running: runs}, nil, StateRunning},
		{Queue{Packet: &Packet{Type: "invalid"}, Running: runs}, nil, StateUnpublished},
		{Queue{Packet: &Packet{Type: "dispatch", Barrier: true}, Running: runs}, nil, StateBehind},
		{Queue{Packet: &Packet{Type: "dispatch"}}, nil, StateAtGPU},
		{Queue{Packet: barrier("barrier-and", done, open)}, nil, StateSignal},
		{Queue{Packet: barrier("barrier-and", done, none)}, nil, StateAtGPU},
		{Queue{Packet: barrier("barrier-or", done, open)}, nil, StateAtGPU},
		{Queue{Packet: barrier("barrier-or", open)}, nil, StateSignal},
	} {
		if got := stateOf(&c.q, c.err); got != c.want {
			t.Errorf("%+v: %s", c.q, got)
		}
	}
}

// The vendor's barrier packet compares a masked value.
func TestBarrierValue(t *testing.T) {
	var b [packetBytes]byte
	b[2] = barrierValue
	put(b[:], map[int]uint64{8: 0x1000, 16: 4, 24: 0xff, 32: 3})
	p := parsePacket(&b)
	if p.kind != typeVendor || p.vendorFormat != barrierValue || p.dependencies[0] != 0x1000 || p.met(0x103) || !p.met(0x104) ||
		p.conditionText() != "& 0xff ≥ 4" {
		t.Errorf("%+v, %s", p, p.conditionText())
	}
	for condition, want := range map[uint32][2]bool{0: {true, false}, 1: {false, true}, 2: {false, false}, 3: {true, true}} {
		if p.condition = condition; p.met(4) != want[0] || p.met(5) != want[1] {
			t.Errorf("condition %d", condition)
		}
	}
}

func TestParseURI(t *testing.T) {
	for uri, want := range map[string]place{
		"file:///opt/a%20b.hsaco":                      {path: "/opt/a b.hsaco"},
		"file:///opt/a.so#offset=4096&size=10":         {path: "/opt/a.so", offset: 4096, size: 10},
		"memory://41#offset=0x1000&size=0x20":          {offset: 0x1000, size: 0x20},
		"memory://41#offset=0x1000":                    {},
		"memory://41#offset=x&size=1":                  {},
		"memory://41#offset=0xffffffffffffffff&size=1": {},
		"file://relative":                              {},
		"":                                             {},
	} {
		if got, err := parseURI(uri); got != want && err == nil || (err != nil) != (want == place{}) {
			t.Errorf("%q: %+v, %v", uri, got, err)
		}
	}
}

func TestWithin(t *testing.T) {
	wait, hip := named{name: "hsa_signal_wait_scacquire", file: "libhsa-runtime64.so.1"}, named{name: "hipStreamSynchronize", file: "libamdhip64.so.5"}
	inner, start := named{name: "libamdhip64.so.5+0x10", file: "libamdhip64.so.5"}, named{name: "libc.so.6+0x1", file: "libc.so.6"}
	program := named{name: "main", file: "server"}
	for _, c := range []struct {
		frames []named
		whole  bool
		want   string
		at     int
	}{
		{[]named{start, wait, inner, hip, program, start}, true, "hipStreamSynchronize", 3},
		{[]named{wait, program, start}, true, "hsa_signal_wait_scacquire", 0},
		{[]named{wait, inner, start}, true, "", 0}, // a thread of HIP's own
		{[]named{wait, inner}, false, "hsa_signal_wait_scacquire", 1},
		{[]named{inner, program, start}, true, "a function of libamdhip64", 0},
		{[]named{start, program, start}, true, "", 0},
	} {
		if got, at := within(c.frames, c.whole); got != c.want || at != c.at {
			t.Errorf("%v: %s, %d", c.frames, got, at)
		}
	}
}

func TestCalledBack(t *testing.T) {
	hip, libc := named{name: "hipLaunchHostFunc", file: "libamdhip64.so.6"}, named{name: "pause", file: "libc.so.6"}
	own, plugin, other := named{name: "never_returns", file: "server"}, named{name: "on_done", file: "plugin.so"}, named{name: "x", file: "libdrm.so.2"}
	for _, c := range []struct {
		frames []named
		want   string
	}{
		{[]named{libc, own, hip, libc}, "never_returns"}, // a thread of HIP's own
		{[]named{libc, plugin, hip, plugin, libc}, "on_done"},
		{[]named{libc, plugin, hip, libc}, ""}, // a library of which it is not known that it is no part of ROCm
		{[]named{libc, other, hip, own, libc}, ""},
		{[]named{libc, own, libc}, ""},
		{[]named{hip, own, hip, own}, "never_returns"},
		{nil, ""},
	} {
		if got := calledBack(c.frames, "server"); got != c.want {
			t.Errorf("%v: %q, want %q", c.frames, got, c.want)
		}
	}
	if got := calledBack([]named{{name: "0x1"}, hip}, ""); got != "" {
		t.Error(got)
	}
}

func TestCollectives(t *testing.T) {
	kernel := Packet{Kernel: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)"}
	processes := []*Process{
		{PID: 1, Queues: []Queue{{Running: []Packet{kernel}}}},
		{PID: 2, Queues: []Queue{{Packet: &kernel}}},
		{PID: 3, Queues: []Queue{{Packet: &kernel, Moved: true}}},
		{PID: 4, Hidden: "gone"},
		{PID: 5, Threads: []Thread{{Within: "ncclGroupEnd", Same: true}}, Queues: []Queue{{Running: []Packet{{Kernel: "my::exchange<float>(float*)"}}}}},
	}
	got := insideOf(processes, collectives.Default())
	if len(got) != 2 || got[0].Name != "ncclDevKernel_AllReduce_Sum_f32_RING_LL" ||
		!slices.Equal(got[0].Inside, []int{1, 2}) || !slices.Equal(got[0].Outside, []int{3, 5}) || got[1].Name != "ncclGroupEnd" {
		t.Errorf("%+v", got)
	}
	own, err := collectives.Parse(strings.NewReader(`\bmy::exchange`))
	if err != nil {
		t.Fatal(err)
	}
	if got := insideOf(processes, own); len(got) != 2 || got[0].Name != "my::exchange" || !slices.Equal(got[0].Inside, []int{5}) || !slices.Equal(got[0].Outside, []int{1, 2, 3}) {
		t.Errorf("%+v", got)
	}
}

// The driver's offset of a mapping of doorbells has the GPU's id.
func TestGPUOfDoorbell(t *testing.T) {
	const id = 0xabcd
	m := target.Map{Path: "/dev/kfd", Offset: 3<<62 | id<<46}
	driver := fstest.MapFS{
		"topology/nodes/0/gpu_id": {Data: []byte("0\n")}, "topology/nodes/1/gpu_id": {Data: []byte("77\n")},
		"topology/nodes/2/gpu_id": {Data: []byte("43981\n")},
	}
	if n, ok := gpusByID(driver)[gpuIDOf(m)]; gpuIDOf(m) != id || !ok || n != 1 {
		t.Errorf("%#x, %d, %t", gpuIDOf(m), n, ok)
	}
	for _, m := range []target.Map{{Path: "/dev/kfd", Offset: 2<<62 | id<<46}, {Path: "/dev/dri/renderD128", Offset: 3<<62 | id<<46}} {
		if got := gpuIDOf(m); got != 0 {
			t.Errorf("%+v: %#x", m, got)
		}
	}
}

// What the GPU has taken is counted while a queue is the same.
func TestTaken(t *testing.T) {
	b := withQueue(minusOne)
	found, _ := search(b)
	put(b, map[int]uint64{0x1000 + 128: 25})
	if n, err := taken(bytes.NewReader(b), found); n != 25 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	put(b, map[int]uint64{0x1000 + 32: 8})
	if n, err := taken(bytes.NewReader(b), found); !errors.Is(err, errOtherQueue) {
		t.Errorf("another queue: %d, %v", n, err)
	}
	if n, err := taken(bytes.NewReader(b[:0x1000]), found); err == nil {
		t.Errorf("memory that is gone: %d", n)
	}
	other, _ := search(b)
	if one := (&Queues{all: found}); one.Same(&Queues{all: other}) || one.Same(&Queues{}) || !one.Same(&Queues{all: found}) {
		t.Error("what is the same")
	}
}

// A search ends when it has found as many queues as it should.
func TestEnough(t *testing.T) {
	b := withQueue(minusOne)
	maps := []target.Map{{Start: 0, End: target.Addr(len(b)), Perms: "rw-p"}, {Start: 1 << 20, End: 1<<20 + 1<<30, Perms: "rw-p"}}
	_, s := findQueues(bytes.NewReader(b), maps, func(m target.Map, most uint64) ([]target.Span, error) {
		return []target.Span{{Start: m.Start, End: m.End}}, nil
	}, bounds{bytes: scanBytesMax, time: scanTimeMax, enough: 1})
	if s.Bytes != uint64(len(b)) || s.Skipped != 0 {
		t.Errorf("%+v", s)
	}
}

// FuzzQueue: whatever is in memory, a search ends, and what it finds is within its limits.
func FuzzQueue(f *testing.F) {
	f.Add(withQueue(minusOne)[0x1000:0x2040])
	f.Fuzz(func(t *testing.T, b []byte) {
		found, _ := search(b)
		mem := bytes.NewReader(b)
		p := newPending()
		for _, q := range found {
			if q.slots == 0 || q.slots > slotsMax || !aligned(q.ring) || q.slot(q.read) < q.ring {
				t.Errorf("%+v", q)
			}
			p.add(mem, q)
			_, _ = taken(mem, []*rawQueue{q})
			if raw, err := readPacket(mem, q, q.read); err == nil && raw.kind > 0xff {
				t.Errorf("%+v", raw)
			}
		}
	})
}

// FuzzNames: a list of code objects, and the code objects.
func FuzzNames(f *testing.F) {
	f.Add("memory://1#offset=64&size=512", []byte("\x7fELF\x02\x01\x01"), uint64(0x100))
	f.Add("file:///a#size=3", []byte{}, uint64(1))
	f.Fuzz(func(t *testing.T, uri string, b []byte, at uint64) {
		n := &names{mem: bytes.NewReader(b), tables: map[target.Addr][]target.Symbol{}, known: map[uint64]string{}, open: nil}
		if p, err := parseURI(uri); err != nil || p.path != "" {
			return
		}
		n.objects = []target.Loaded{{Bias: 0, Name: uri}}
		if name := n.kernel(at); len(name) > 1<<16 {
			t.Errorf("a name of %d bytes", len(name))
		}
	})
}

// FuzzSample: a record of the kernel's with a stack that the process has written.
func FuzzSample(f *testing.F) {
	b := make([]byte, 256)
	binary.LittleEndian.PutUint32(b, 9)
	binary.LittleEndian.PutUint16(b[6:], 256)
	put(b, map[int]uint64{8: 2, 8 * 9: 0x7000, 8 * 19: 64, 8*20 + 64: 32})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseSample(b); err == nil && len(s.Stack) > len(b) {
			t.Errorf("%d bytes of stack from %d", len(s.Stack), len(b))
		}
	})
}

func TestParseSample(t *testing.T) {
	b := make([]byte, 256)
	binary.LittleEndian.PutUint32(b, 9)
	binary.LittleEndian.PutUint16(b[6:], 256)
	put(b, map[int]uint64{8: 2, 16: 1, 8 * 9: 0x7000, 8 * 10: 0x400000, 8 * 18: 15, 8 * 19: 64, 8*20 + 64: 32})
	s, err := parseSample(b)
	if err != nil || s.Base != 0x7000 || s.Regs.Rax != 1 || s.Regs.Rip != 0x400000 || s.Regs.R15 != 15 || len(s.Stack) != 32 {
		t.Errorf("%+v, %v", s, err)
	}
}

// FuzzWait: addresses in system calls are the process's.
func FuzzWait(f *testing.F) {
	f.Add(make([]byte, 64), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, at uint64) {
		mem := bytes.NewReader(b)
		mutexHolder(mem, at)
		driverEvents(mem, target.Syscall{Number: 16, Args: [6]uint64{3, waitEvents, at}})
	})
}

func TestDriverEvents(t *testing.T) {
	b := make([]byte, 256)
	put(b, map[int]uint64{8: 64, 16: 2, 64 + 40: 12, 64 + 88: 13})
	got := driverEvents(bytes.NewReader(b), target.Syscall{Number: 16, Args: [6]uint64{3, waitEvents, 8}})
	if !slices.Equal(got, []uint32{12, 13}) {
		t.Errorf("%v", got)
	}
}

// The payload's state of a queue has the write index that the program sees; an earlier queue's, or a copy of a state, is none.
func TestFindClaims(t *testing.T) {
	const at = 0x4000
	state := map[int]uint64{at + claimsWord: wordVirtual | 15, at + claimsQueue: 0x1000, at + claimsID: 7, at + claimsStamps: at + 0x1000, at + claimsMask: 63}
	for name, c := range map[string]struct {
		words map[int]uint64
		want  uint64
	}{
		"recorded":              {nil, 15},
		"about to end":          {map[int]uint64{at + claimsWord: wordClosed | 14}, 14},
		"not now":               {map[int]uint64{at + claimsWord: 0}, 12},
		"behind the queue's":    {map[int]uint64{at + claimsWord: wordVirtual | 11}, 12},
		"another queue's":       {map[int]uint64{at + claimsQueue: 0x1040}, 12},
		"an earlier queue's":    {map[int]uint64{at + claimsID: 6}, 12},
		"of another size":       {map[int]uint64{at + claimsMask: 127}, 12},
		"a copy somewhere else": {map[int]uint64{at + claimsStamps: 0x1000}, 12},
	} {
		b := withQueue(minusOne)
		put(b, state)
		put(b, c.words)
		queues, _ := search(b)
		m := target.Map{Start: 0, End: target.Addr(len(b)), Perms: "rw-p"}
		found, whole := findClaims(bytes.NewReader(b), []target.Map{m}, func(m target.Map, most uint64) ([]target.Span, error) {
			return []target.Span{{Start: m.Start, End: m.End}}, nil
		}, queues)
		q := queues[0]
		seenByProgram(bytes.NewReader(b), found, q)
		if q.write != c.want || !whole || (q.claims != nil) != (c.want != 12) || q.claims != nil && q.passed != 12 {
			t.Errorf("%s: %+v, %t", name, q, whole)
		}
	}
}
