package python

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// image is the memory of a process, from base on. Before each read it calls changes.
type image struct {
	b       []byte
	reads   int
	at      uint64 // of the read that comes
	changes func(*image)
}

const base = 0x10000

func (m *image) Sample(a target.Addr, b []byte) error {
	m.at = uint64(a)
	if m.reads++; m.changes != nil {
		m.changes(m)
	}
	if a < base || uint64(a-base) > uint64(len(m.b)) || uint64(len(b)) > uint64(len(m.b))-uint64(a-base) {
		return target.ErrMalformed // the reader should not have come here
	}
	copy(b, m.b[a-base:])
	return nil
}

func (m *image) put(at uint64, word uint64) { binary.LittleEndian.PutUint64(m.b[at-base:], word) }

// Places in the images that the tests make.
const (
	interpAt = base + 0x1000
	stateAt  = base + 0x2000
	cframeAt = base + 0x2800
	framesAt = base + 0x3000 // one each 0x80 bytes, the outermost first
	codesAt  = base + 0x4000 // one each 0x200 bytes
	textAt   = base + 0x6000 // one each 0x100 bytes
	imageEnd = 0x8000
	tid      = 4711
)

// versions are the places of each version, with _Py_DebugOffsets as the releases have them.
func versions(tb testing.TB) map[string]offsets {
	tb.Helper()
	all := map[string]offsets{"3.11": of311(), "3.12": of312()}
	for version, set := range map[uint64]map[int]uint64{
		0x030d05f0: {5: 632, 8: 7264, 9: 7344, 14: 16, 21: 8, 22: 16, 23: 72, 24: 152, 25: 160, 29: 8, 30: 0, 31: 56, 33: 70, 35: 112, 37: 128, 38: 136, 39: 68, 43: 200},
		0x030e00f0: {5: 808, 8: 7272, 9: 7344, 15: 16, 24: 8, 25: 16, 26: 72, 27: 152, 28: 160, 32: 8, 33: 0, 34: 56, 36: 74, 40: 112, 42: 128, 43: 136, 44: 68, 48: 208},
	} {
		o, err := offsetsOf(version, debugOffsets(version, set))
		if err != nil {
			tb.Fatal(err)
		}
		o.interpNext, o.threadsHead = 0, 72 // nearer, for a small image
		all[versionText(version)[:4]] = o
	}
	return all
}

// debugOffsets returns the beginning of a _PyRuntime.
func debugOffsets(version uint64, set map[int]uint64) []byte {
	b := make([]byte, offsetsBytes)
	copy(b, offsetsCookie)
	binary.LittleEndian.PutUint64(b[8:], version)
	for i, word := range set {
		binary.LittleEndian.PutUint64(b[8*i:], word)
	}
	return b
}

// over returns the interpreter of an image.
func over(m sampler, n int, o offsets) *Interpreter {
	r := newReader(m, func() ([]target.Map, error) {
		return []target.Map{{Start: base, End: base + target.Addr(n), Perms: "rw-p"}}, nil
	}, target.Map{})
	return &Interpreter{
		offsets: o, memory: r, runtime: base, codes: newCache(),
		tids: func() (map[uint32]uint32, error) { return map[uint32]uint32{tid: tid}, nil },
	}
}

// topOf returns where the address of the innermost frame is.
func topOf(o offsets) uint64 {
	if o.tsCframe != 0 {
		return cframeAt + uint64(o.tsFrame)
	}
	return stateAt + uint64(o.tsFrame)
}

// withStack returns an image with one thread, in which outer, in line 10, has called inner, in line 22.
func withStack(o offsets) *image {
	m := &image{b: make([]byte, imageEnd)}
	m.put(base+uint64(o.interpHead), interpAt)
	m.put(interpAt+uint64(o.threadsHead), stateAt)
	m.put(stateAt+uint64(o.tsInterp), interpAt)
	m.put(stateAt+uint64(o.tsTID), tid)
	if o.tsCframe != 0 {
		m.put(stateAt+uint64(o.tsCframe), cframeAt)
	}
	top := topOf(o)
	frames := []uint64{framesAt, framesAt + 0x80, framesAt + 0x100}
	m.put(top, frames[2])
	m.frame(o, frames[2], frames[1], 1, 2, false)
	m.frame(o, frames[1], frames[0], 0, 0, o.markIs != markedShim)
	if o.markIs == markedShim {
		m.frame(o, frames[0], 0, 1, 0, true)
	} else {
		m.put(frames[1]+uint64(o.fPrev), 0)
	}
	m.code(o, 0, "outer", 10)
	m.code(o, 1, "inner", 20)
	if at := base + uint64(o.gil); o.gilIn == gilInRuntime {
		m.put(at+gilHolder, stateAt)
		m.put(at+gilLocked, 1)
	} else {
		m.put(interpAt+uint64(o.gil), base+0x7000)
		m.put(base+0x7000+gilHolder, stateAt)
		m.put(base+0x7000+gilLocked, 1)
	}
	return m
}

func (m *image) frame(o offsets, at, prev uint64, code, instr int, mark bool) {
	address := codesAt + 0x200*uint64(code)
	m.put(at+uint64(o.fCode), address)
	m.put(at+uint64(o.fPrev), prev)
	m.put(at+uint64(o.fInstr), address+uint64(o.coCode)+2*uint64(instr))
	if mark {
		m.b[at-base+uint64(o.fMark)] = byte(o.markIs)
	}
}

// code makes a code object of four instructions, two for each of its lines: first, and two lines on.
func (m *image) code(o offsets, n int, name string, first uint64) {
	at, text := codesAt+0x200*uint64(n), textAt+0x300*uint64(n)
	for i, s := range []string{name, "/a/" + name + ".py"} {
		str := text + 0x100*uint64(i)
		m.put(str+uint64(o.strLen), uint64(len(s)))
		m.put(str+uint64(o.strState), 1<<2|1<<5|1<<6)
		copy(m.b[str-base+uint64(o.strASCII):], s)
	}
	table := []byte{0x80 | kindNoCols<<3 | 1, 0, 0x80 | kindNoCols<<3 | 1, 2 << 1}
	m.put(text+0x200+uint64(o.bytesLen), uint64(len(table)))
	copy(m.b[text+0x200-base+uint64(o.bytesData):], table)
	m.put(at+uint64(o.coFirst), first)
	m.put(at+uint64(o.coLen), 4)
	m.put(at+uint64(o.coName), text)
	m.put(at+uint64(o.coFile), text+0x100)
	m.put(at+uint64(o.coLines), text+0x200)
}

var wanted = []Frame{{"inner", "/a/inner.py", 22}, {"outer", "/a/outer.py", 10}}

// TestVersions reads a stack of each version, and the lock.
func TestVersions(t *testing.T) {
	for version, o := range versions(t) {
		m := withStack(o)
		p := over(m, len(m.b), o)
		if got, err := p.Stack(tid); err != nil || fmt.Sprint(got) != fmt.Sprint(wanted) {
			t.Errorf("%s: %v, %v", version, got, err)
		}
		locks, err := p.GIL()
		if err != nil || len(locks) != 1 || !locks[0].Locked || locks[0].Holder != tid || !locks[0].Waits(locks[0].address+40) || locks[0].Waits(locks[0].address-4) {
			t.Errorf("%s: %+v, %v", version, locks, err)
		}
		if at, err := p.GILAddresses(); err != nil || len(at) != 1 || at[0] != locks[0].address {
			t.Errorf("%s: addresses %x, %v", version, at, err)
		}
		if _, err := p.Stack(tid + 1); !errors.Is(err, ErrNoThread) {
			t.Errorf("%s: another thread: %v", version, err)
		}
	}
}

// TestTorn: a stack that changes while it is read, before each of its reads, is the one before, the one after, or none.
func TestTorn(t *testing.T) {
	for version, o := range versions(t) {
		top := topOf(o)
		for name, change := range map[string]func(m *image){
			"the innermost frame has returned":      func(m *image) { m.put(top, framesAt+0x80) },
			"another function in its place":         func(m *image) { m.frame(o, framesAt+0x100, framesAt+0x80, 0, 2, false) },
			"its caller has gone on":                func(m *image) { m.put(framesAt+0x80+uint64(o.fInstr), codesAt+uint64(o.coCode)+4) },
			"another thread in its place":           func(m *image) { m.put(stateAt+uint64(o.tsTID), tid+1) },
			"another code object at the address":    func(m *image) { m.code(o, 1, "else", 30) },
			"an instruction of another code object": func(m *image) { m.put(framesAt+0x80+uint64(o.fInstr), codesAt+0x400) },
		} {
			read := func(m *image) string {
				frames, err := over(m, len(m.b), o).Stack(tid)
				if err != nil && !errors.Is(err, ErrTorn) && !errors.Is(err, ErrNoThread) {
					t.Fatalf("%s, %s: %v", version, name, err)
				}
				return fmt.Sprint(frames)
			}
			changed := withStack(o)
			change(changed)
			possible := []string{fmt.Sprint(wanted), read(changed), fmt.Sprint([]Frame(nil))}
			for at := range 40 {
				m := withStack(o)
				m.changes = func(m *image) {
					if m.reads == at {
						change(m)
					}
				}
				if got := read(m); !slices.Contains(possible, got) {
					t.Errorf("%s, %s, before read %d: %s", version, name, at, got)
				}
			}
		}
	}
}

// TestLeftFrame: a thread that calls all the time is inside a call at the begin of a look and again when its frames
// were looked up, but between two calls whenever the frames are read. The frame that it has left is not said to be in the next call.
func TestLeftFrame(t *testing.T) {
	for version, o := range versions(t) {
		m := withStack(o)
		m.put(framesAt+0x80+uint64(o.fInstr), codesAt+uint64(o.coCode)+4) // where outer calls something else next
		inside := 0
		m.changes = func(m *image) {
			if m.at != topOf(o) {
				return
			}
			innermost := uint64(framesAt + 0x100)
			if inside++; inside%3 == 0 {
				innermost = framesAt + 0x80
			}
			m.put(m.at, innermost)
		}
		if frames, err := over(m, len(m.b), o).Stack(tid); !errors.Is(err, ErrTorn) {
			t.Errorf("%s: %v, %v", version, frames, err)
		}
	}
}

// TestHostileLists: lists without an end end, and a pointer out of the memory is not followed.
func TestHostileLists(t *testing.T) {
	for version, o := range versions(t) {
		for name, words := range map[string]map[uint64]uint64{
			"a thread that follows itself":      {stateAt + uint64(o.tsNext): stateAt},
			"an interpreter that does":          {interpAt + uint64(o.interpNext): interpAt},
			"a thread of another interpreter":   {stateAt + uint64(o.tsInterp): base},
			"a thread outside":                  {interpAt + uint64(o.threadsHead): 1 << 40},
			"a thread at the end of the memory": {interpAt + uint64(o.threadsHead): base + imageEnd - 8},
			"a frame that follows itself":       {framesAt + 0x80 + uint64(o.fPrev): framesAt + 0x80},
			"a frame outside":                   {framesAt + 0x80 + uint64(o.fPrev): 8},
			"a name outside":                    {codesAt + uint64(o.coName): 1<<63 + 8},
			"lines of 2^60 bytes":               {textAt + 0x200 + uint64(o.bytesLen): 1 << 60},
			"an instruction elsewhere":          {framesAt + 0x80 + uint64(o.fInstr): 1},
			"no instructions":                   {codesAt + uint64(o.coLen): 0},
		} {
			m := withStack(o)
			for at, word := range words {
				m.put(at, word)
			}
			frames, err := over(m, len(m.b), o).Stack(tid)
			if err == nil || len(frames) > framesMax || m.reads > 8*statesMax {
				t.Errorf("%s, %s: %d frames, %v, %d reads", version, name, len(frames), err, m.reads)
			}
		}
	}
}

// TestRefused: versions that cannot be read are refused with their names.
func TestRefused(t *testing.T) {
	known := map[int]uint64{5: 632}
	for text, c := range map[string]struct {
		hex  uint64
		head []byte
	}{
		"older than 3.11":             {0, make([]byte, offsetsBytes)},
		"3.10.4 ":                     {0x030a04f0, make([]byte, offsetsBytes)},
		"3.15.0a2 is no release":      {0x030f00a2, debugOffsets(0x030f00a2, known)},
		"3.15.0 (known":               {0x030f00f0, debugOffsets(0x030f00f0, known)},
		"free-threaded":               {0x030d05f0, debugOffsets(0x030d05f0, map[int]uint64{2: 1})},
		"3.13.5 and 3.14.0":           {0x030d05f0, debugOffsets(0x030e00f0, known)},
		"impossible place 4294967296": {0x030d05f0, debugOffsets(0x030d05f0, map[int]uint64{5: 1 << 32})},
		"impossible place 200":        {0x030e00f0, debugOffsets(0x030e00f0, map[int]uint64{34: 200})},
	} {
		if _, err := offsetsOf(c.hex, c.head); !errors.Is(err, ErrVersion) || !contains(err, text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzImage: whatever is in memory, a look ends after a limited number of reads, reads nothing outside, and what it returns is within its limits.
func FuzzImage(f *testing.F) {
	names := []string{"3.11", "3.12", "3.13", "3.14"}
	all := versions(f)
	for i, name := range names {
		f.Add(withStack(all[name]).b, byte(i))
	}
	f.Fuzz(func(t *testing.T, b []byte, version byte) {
		m := &image{b: b}
		p := over(m, len(b), all[names[int(version)%len(names)]])
		frames, err := p.Stack(tid)
		if len(frames) > framesMax || err == nil && len(frames) > len(b) {
			t.Errorf("%d frames", len(frames))
		}
		for _, f := range frames {
			const escaped = 10 // bytes of one character: \U0001f600
			if len(f.Name) > escaped*(nameMax+1) || len(f.File) > escaped*(fileMax+1) || f.Line < 0 {
				t.Errorf("%d and %d bytes, line %d", len(f.Name), len(f.File), f.Line)
			}
		}
		_, _ = p.GIL()
		p.Layout()
		if most := 16 * (statesMax + len(b)); m.reads > most {
			t.Errorf("%d reads", m.reads)
		}
	})
}

// FuzzOffsets: the places that a process tells are within their limits.
func FuzzOffsets(f *testing.F) {
	f.Add(uint64(0x030d05f0), debugOffsets(0x030d05f0, map[int]uint64{5: 632, 29: 8}))
	f.Add(uint64(0x030e00f0), debugOffsets(0x030e00f0, map[int]uint64{5: 808}))
	f.Fuzz(func(t *testing.T, hex uint64, head []byte) {
		if len(head) < offsetsBytes {
			return
		}
		o, err := offsetsOf(hex, head)
		if err == nil && (max(o.fCode, o.fPrev, o.fInstr, o.fMark) > framePlaceMax || max(o.interpHead, o.threadsHead) > statePlaceMax ||
			max(o.tsFrame, o.tsTID, o.coCode, o.coLines) > placeMax) {
			t.Errorf("%+v", o)
		}
	})
}

// FuzzLines: tables of lines end, and their lines are numbers that a file can have.
func FuzzLines(f *testing.F) {
	f.Add([]byte{0x80 | kindNoCols<<3 | 1, 0, 0x80 | kindLong<<3, 0x43, 1, 0, 0, 0}, 10, 6)
	f.Fuzz(func(t *testing.T, table []byte, first, size int) {
		lines := decodeLines(table, first, size)
		for i, e := range lines {
			if e.line < 0 || i > 0 && e.end <= lines[i-1].end {
				t.Errorf("%+v", lines)
			}
		}
		_ = lineAt(lines, int64(size), first)
	})
}

func contains(err error, text string) bool { return strings.Contains(err.Error(), text) }
