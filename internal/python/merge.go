package python

// RawFrame is a frame as it is in a thread's list of frames: the addresses of its code object and of its instruction,
// and whether it is marked as the end of a call of the evaluation function.
type RawFrame struct {
	Code, Instr uint64
	Mark        bool
}

// Shim reports whether a frame is of no function: since 3.12 such a frame is the mark.
func (p *Interpreter) Shim(f RawFrame) bool { return f.Mark && p.markIs == markedShim }

// Place is a frame of a merged stack: the index of a native frame or of one of Python.
type Place struct {
	Python bool
	Index  int
}

// Merge puts the Python frames of a thread between its native ones. Both have the innermost first; native are the
// frames' addresses, of which evaluates tells whether they are in the evaluation function. A frame of this
// function stands for the Python frames down to the one with the mark, and is left out if there are any. What
// remains of Python, because the native frames end before, comes last.
func (p *Interpreter) Merge(native []uint64, frames []RawFrame) []Place {
	return merge(native, frames, func(pc uint64) bool { return pc >= p.evalBegin && pc < p.evalEnd }, p.Shim)
}

func merge[N any](native []N, frames []RawFrame, evaluates func(N) bool, shim func(RawFrame) bool) []Place {
	places := make([]Place, 0, len(native)+len(frames))
	next := 0
	call := func() (some bool) {
		for next < len(frames) {
			f := frames[next]
			if !shim(f) {
				places, some = append(places, Place{true, next}), true
			}
			if next++; f.Mark {
				break
			}
		}
		return some
	}
	for i, n := range native {
		if evaluates(n) && call() {
			continue
		}
		places = append(places, Place{false, i})
	}
	for next < len(frames) {
		call()
	}
	return places
}
