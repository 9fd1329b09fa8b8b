package python

// RawFrame is a frame as it is in a thread's list of frames: the addresses of its code object and of its instruction,
// and whether it is marked as the end of a call of the evaluation function. Address is its own; 0: not known.
type RawFrame struct {
	Code, Instr uint64
	Mark        bool
	Address     uint64
}

// Shim reports whether a frame is of no function: since 3.12 such a frame is the mark.
func (p *Interpreter) Shim(f RawFrame) bool { return f.Mark && p.Shims() }

// Shims reports whether marked frames are of no function.
func (p *Interpreter) Shims() bool { return p.markIs == markedShim }

// Native is a native frame: an address in its function and its stack pointer. SP is 0 if it is not known.
type Native struct{ PC, SP uint64 }

// Place is a frame of a merged stack: the index of a native frame or of one of Python.
type Place struct {
	Python bool
	Index  int
}

// Merge puts the Python frames of a thread between its native ones. Both have the innermost first. A native frame
// of the evaluation function stands for the Python frames down to the one with the mark, and is left out if there are any.
// Since 3.12 the marked frame is a variable of this function, so that the stack pointers tell which native frame it is,
// also where compilers have made several functions of it (tail calls in 3.14). Otherwise its address tells (EvalRange).
// What remains of Python, because the native frames end before, comes last.
func (p *Interpreter) Merge(native []Native, frames []RawFrame) []Place {
	m := merger{p: p, native: native, frames: frames, places: make([]Place, 0, len(native)+len(frames))}
	for i := range native {
		if !m.evaluates(i) || !m.call() {
			m.places = append(m.places, Place{false, i})
		}
	}
	for m.next < len(frames) {
		m.call()
	}
	return m.places
}

// merger is a merge in progress.
type merger struct {
	p      *Interpreter
	native []Native
	frames []RawFrame
	next   int // of frames
	places []Place
}

// call adds the Python frames of one call of the evaluation function, and reports whether there are any.
func (m *merger) call() (some bool) {
	for m.next < len(m.frames) {
		f := m.frames[m.next]
		if !m.p.Shim(f) {
			m.places, some = append(m.places, Place{true, m.next}), true
		}
		if m.next++; f.Mark {
			break
		}
	}
	return some
}

// evaluates reports whether a native frame is the evaluation function's that called the next frames.
func (m *merger) evaluates(i int) bool {
	if shim, ok := m.shim(); ok && m.native[i].SP != 0 {
		// The frame's variables are between its stack pointer and its caller's.
		return i+1 < len(m.native) && shim >= m.native[i].SP && shim < m.native[i+1].SP
	}
	pc := m.native[i].PC
	return pc >= m.p.evalBegin && pc < m.p.evalEnd
}

// shim returns the address of the next shim, if it is known.
func (m *merger) shim() (uint64, bool) {
	for _, f := range m.frames[m.next:] {
		if f.Mark {
			return f.Address, m.p.Shim(f) && f.Address != 0
		}
	}
	return 0, false
}
