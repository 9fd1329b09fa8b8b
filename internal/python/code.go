package python

import (
	"encoding/binary"
	"unicode/utf16"

	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Limits of what is read of a code object.
const (
	nameMax  = 512       // characters of a function's name
	fileMax  = 4096      // characters of a path
	linesMax = 256 << 10 // bytes of the table of lines
	codeMax  = 1 << 24   // instructions
	lookMax  = 16 << 20  // bytes of all tables of lines in one look at a stack
)

// code is what is known of a code object.
type code struct {
	head       codeHead
	name, file string
	start      uint64 // of its instructions
	lines      []lineEnd
}

// codeHead are the fields of a code object by which another one at the same address is noticed.
type codeHead struct {
	name, file, lines uint64 // addresses
	first             int32
	instructions      uint32
}

// Code returns what a frame is at, by the address of its code object and of its instruction, as the frame has them.
// It returns false if there is no such code object (any more).
func (p *Interpreter) Code(address, instr uint64) (Frame, bool) {
	p.looked = 0
	return p.code(address, instr)
}

func (p *Interpreter) code(address, instr uint64) (Frame, bool) {
	c, ok := p.codeAt(address)
	if !ok || !c.has(instr) {
		return Frame{}, false
	}
	return c.frame(instr), true
}

// tagged are the lowest bits of a reference in a frame of 3.14, which has a tag there. Objects are aligned.
const tagged = 7

// codeAt returns the code object at an address. It looks each time whether it is the same as the last time.
func (p *Interpreter) codeAt(address uint64) (*code, bool) {
	address &^= tagged
	head, ok := p.codeHead(address)
	if !ok {
		return nil, false
	}
	if c := p.codes.get(address); c != nil && c.head == head {
		return c, true
	}
	c := &code{head: head, start: address + uint64(p.coCode)}
	if c.name, ok = p.text(head.name, nameMax); !ok {
		return nil, false
	}
	if c.file, ok = p.text(head.file, fileMax); !ok {
		return nil, false
	}
	table, ok := p.bytes(head.lines, linesMax)
	if !ok {
		return nil, false
	}
	c.lines = decodeLines(table, int(head.first), 2*int(head.instructions))
	if again, ok := p.codeHead(address); !ok || again != head {
		return nil, false
	}
	p.codes.put(address, c)
	return c, true
}

// codeHead reads the fields of a code object.
func (p *Interpreter) codeHead(address uint64) (h codeHead, ok bool) {
	b := make([]byte, max(p.coName, p.coFile, p.coLines, p.coFirst, p.coLen)+8)
	if p.memory.read(address, b) != nil {
		return h, false
	}
	le := binary.LittleEndian
	n := le.Uint64(b[p.coLen:])
	if n == 0 || n > codeMax {
		return h, false
	}
	return codeHead{
		name: le.Uint64(b[p.coName:]), file: le.Uint64(b[p.coFile:]), lines: le.Uint64(b[p.coLines:]),
		first: int32(le.Uint32(b[p.coFirst:])), instructions: uint32(n),
	}, true
}

// has reports whether a frame of this code can have the instruction. A call that has not begun is one before the first.
func (c *code) has(instr uint64) bool {
	return instr+2-c.start <= 2*uint64(c.head.instructions)
}

func (c *code) frame(instr uint64) Frame {
	return Frame{Name: c.name, File: c.file, Line: lineAt(c.lines, int64(instr-c.start), int(c.head.first))}
}

// text reads a string object, without what could do harm where it is printed. A longer text than most is cut.
func (p *Interpreter) text(at uint64, most uint64) (string, bool) {
	h := make([]byte, p.strCompact)
	if p.memory.read(at, h[:p.strASCII]) != nil {
		return "", false
	}
	n, state := binary.LittleEndian.Uint64(h[p.strLen:]), binary.LittleEndian.Uint32(h[p.strState:])
	kind, compact, ascii := uint64(state>>2&7), state>>5&1, state>>6&1
	data := at + uint64(p.strCompact)
	if ascii == 1 {
		data = at + uint64(p.strASCII)
	}
	if compact == 0 || kind != 1 && kind != 2 && kind != 4 || ascii == 1 && kind != 1 {
		return "", false
	}
	cut := ""
	if n > most {
		n, cut = most, "…"
	}
	b := make([]byte, n*kind)
	if n > 0 && p.memory.read(data, b) != nil {
		return "", false
	}
	return sanitize.Text(decode(b, kind)) + cut, true
}

// decode makes a string of characters of kind bytes each.
func decode(b []byte, kind uint64) string {
	switch kind {
	case 2:
		units := make([]uint16, len(b)/2)
		for i := range units {
			units[i] = binary.LittleEndian.Uint16(b[2*i:])
		}
		return string(utf16.Decode(units))
	case 4:
		runes := make([]rune, len(b)/4)
		for i := range runes {
			runes[i] = rune(binary.LittleEndian.Uint32(b[4*i:]))
		}
		return string(runes)
	}
	runes := make([]rune, len(b))
	for i, c := range b {
		runes[i] = rune(c)
	}
	return string(runes)
}

// bytes reads a bytes object of at most most bytes.
func (p *Interpreter) bytes(at uint64, most uint64) ([]byte, bool) {
	n, err := p.memory.word(at + uint64(p.bytesLen))
	if err != nil || n > most || p.looked+n > lookMax {
		return nil, false
	}
	p.looked += n
	b := make([]byte, n)
	if n > 0 && p.memory.read(at+uint64(p.bytesData), b) != nil {
		return nil, false
	}
	return b, true
}

// Limits of the cache of code objects.
const (
	cacheCodes = 1 << 15
	cacheBytes = 64 << 20
)

// cache has code objects by their addresses. When it is full it starts empty again.
type cache struct {
	codes map[uint64]*code
	bytes int
}

func newCache() cache { return cache{codes: map[uint64]*code{}} }

func (c *cache) get(address uint64) *code { return c.codes[address] }

func (c *cache) put(address uint64, entry *code) {
	const overhead = 256
	size := overhead + len(entry.name) + len(entry.file) + lineBytes*len(entry.lines)
	if len(c.codes) >= cacheCodes || c.bytes+size > cacheBytes {
		*c = newCache()
	}
	c.codes[address] = entry
	c.bytes += size
}

var _ sampler = (*target.Target)(nil)
