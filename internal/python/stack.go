package python

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// framesMax limits the Python frames that are read of a thread.
const framesMax = 1024

// Stack reads the Python frames of a thread, the innermost first, while the thread may run. It fails with ErrTorn if the
// frames changed at each try, and with ErrNoThread for a thread that Python does not know. With ErrCut it returns
// the innermost frames of a stack that is too deep. tid is the tool's.
func (p *Interpreter) Stack(tid int) ([]Frame, error) {
	threads, err := p.Threads()
	if err != nil {
		return nil, err
	}
	at, ok := threads[uint32(tid)]
	if !ok {
		return nil, ErrNoThread
	}
	raw, frames, err := p.Raw(at)
	return p.functions(raw, frames), err
}

// functions leaves out the frames of no function.
func (p *Interpreter) functions(raw []RawFrame, frames []Frame) (found []Frame) {
	for i, f := range frames {
		if !p.Shim(raw[i]) {
			found = append(found, f)
		}
	}
	return found
}

// Raw is Stack for a thread state, one of those of Threads. It also returns the frames as the thread has them, for
// Merge. Each has one in frames, those of no function, too.
func (p *Interpreter) Raw(state uint64) (raw []RawFrame, frames []Frame, err error) {
	p.looked = 0
	for range triesMax {
		if raw, frames, err = p.tryStack(state); err == nil || errors.Is(err, ErrCut) {
			return raw, frames, err
		}
	}
	return nil, nil, fmt.Errorf("stack: %w: %w", ErrTorn, err)
}

var errChanged = errors.New("a frame is another now")

// tryStack reads the frames, then their code objects, then the frames again. A frame holds its code object, so
// what was read belongs together if the frames are the same as before.
func (p *Interpreter) tryStack(state uint64) ([]RawFrame, []Frame, error) {
	top, err := p.top(state)
	if err != nil {
		return nil, nil, err
	}
	c := chain{p: p}
	raw, cut, err := c.read(top)
	if err != nil {
		return nil, nil, err
	}
	frames := make([]Frame, len(raw))
	for i, r := range raw {
		if p.Shim(r) {
			continue
		}
		var ok bool
		if frames[i], ok = p.code(r.Code, r.Instr); !ok {
			return nil, nil, errChanged
		}
	}
	if err := p.checkStack(state, top, &c); err != nil {
		return nil, nil, err
	}
	if s, err := p.readState(state); err != nil || s.tid != p.listed[state] {
		return nil, nil, errChanged // the thread has ended, and another one may have its state
	}
	if cut {
		return raw, frames, ErrCut
	}
	return raw, frames, nil
}

// checkStack reads the frames again, between two reads of the innermost one's address. Code objects took much longer to
// read: the thread may have returned and called again since, and a frame that it left may look as if it called the next one.
func (p *Interpreter) checkStack(state, top uint64, c *chain) error {
	if err := p.checkTop(state, top); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	return p.checkTop(state, top)
}

func (p *Interpreter) checkTop(state, top uint64) error {
	if again, err := p.top(state); err != nil || again != top {
		return errChanged
	}
	return nil
}

// top returns the address of the innermost frame of a thread state; 0: none.
func (p *Interpreter) top(state uint64) (uint64, error) {
	if p.tsCframe == 0 {
		return p.memory.word(state + uint64(p.tsFrame))
	}
	at, err := p.memory.word(state + uint64(p.tsCframe))
	if err != nil || at == 0 {
		return 0, err
	}
	return p.memory.word(at + uint64(p.tsFrame))
}

// chain is a list of frames that is read in pieces: most frames are one behind the other.
type chain struct {
	p      *Interpreter
	pieces []piece
	found  []place
}

// piece is a copy of memory.
type piece struct {
	at uint64
	b  []byte
}

// place is where a frame was found.
type place struct{ piece, offset int }

const pieceBytes = 2048

// read reads the frames from top on; cut: there are more.
func (c *chain) read(top uint64) (raw []RawFrame, cut bool, err error) {
	for f := top; f != 0; {
		if len(raw) == framesMax {
			return raw, true, nil
		}
		b, err := c.frame(f)
		if err != nil {
			return nil, false, err
		}
		le := binary.LittleEndian
		raw = append(raw, RawFrame{Code: le.Uint64(b[c.p.fCode:]), Instr: le.Uint64(b[c.p.fInstr:]), Mark: uint32(b[c.p.fMark]) == c.p.markIs, Address: f})
		f = le.Uint64(b[c.p.fPrev:])
	}
	if len(raw) > 0 && !raw[len(raw)-1].Mark { // it was read while CPython was making it: a thread begins with a call from C
		return nil, false, errChanged
	}
	return raw, false, nil
}

// frameBytes is how much of a frame is read.
func (c *chain) frameBytes() int {
	return int(max(c.p.fCode, c.p.fPrev, c.p.fInstr, c.p.fMark)) + 8
}

// frame returns the frame at an address.
func (c *chain) frame(at uint64) ([]byte, error) {
	n := c.frameBytes()
	for i := len(c.pieces) - 1; i >= 0 && i >= len(c.pieces)-2; i-- {
		s := c.pieces[i]
		if off := at - s.at; at >= s.at && off <= uint64(len(s.b)-n) {
			c.found = append(c.found, place{i, int(off)})
			return s.b[off:][:n], nil
		}
	}
	// The frames before it are below it. What is below its page may never have been used.
	span, ok := c.p.memory.span(at, n)
	if !ok {
		return nil, fmt.Errorf("frame at %#x: %w", at, errOutside)
	}
	from := max(uint64(span.Start), at&^0xfff, at-min(at, pieceBytes))
	s := piece{from, make([]byte, at-from+uint64(n))}
	if err := c.p.memory.read(s.at, s.b); err != nil {
		return nil, err
	}
	c.pieces = append(c.pieces, s)
	c.found = append(c.found, place{len(c.pieces) - 1, int(at - from)})
	return s.b[at-from:], nil
}

// check reads the pieces again, and compares the frames. Only the innermost may have gone on to another instruction.
func (c *chain) check() error {
	again := make([][]byte, len(c.pieces))
	for i, s := range c.pieces {
		again[i] = make([]byte, len(s.b))
		if err := c.p.memory.read(s.at, again[i]); err != nil {
			return err
		}
	}
	for i, f := range c.found {
		was, now := c.pieces[f.piece].b[f.offset:], again[f.piece][f.offset:]
		for _, at := range []uint32{c.p.fCode, c.p.fPrev, c.p.fInstr} {
			if (i > 0 || at != c.p.fInstr) && !bytes.Equal(was[at:at+8], now[at:at+8]) {
				return errChanged
			}
		}
		if was[c.p.fMark] != now[c.p.fMark] {
			return errChanged
		}
	}
	return nil
}
