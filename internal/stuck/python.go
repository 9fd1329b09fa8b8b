package stuck

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/python"
)

// interpreter is the process's CPython.
type interpreter struct {
	*python.Interpreter
	threads map[uint32]uint64 // thread states
	locks   []python.GIL
}

// openPython looks for an interpreter; nil: there is none, or it cannot be read, which is said.
func (l *look) openPython() *interpreter {
	p, err := python.Find(l.t, l.maps)
	switch {
	case errors.Is(err, python.ErrNone), errors.Is(err, python.ErrNotReady):
		return nil
	case err != nil:
		l.unseen("Python's frames: " + failure.BareText(err))
		return nil
	}
	i := &interpreter{Interpreter: p}
	l.process.Python = &Python{Version: p.Version(), Locks: []GIL{}}
	if i.threads, err = p.Threads(); err != nil {
		l.unseen("Python's frames: " + failure.BareText(err))
	}
	if i.locks, err = p.GIL(); err != nil {
		l.unseen("who holds the GIL: " + failure.BareText(err))
	}
	for _, g := range i.locks {
		lock := GIL{Locked: g.Locked}
		if g.Locked {
			lock.Holder = int(g.Holder)
		}
		l.process.Python.Locks = append(l.process.Python.Locks, lock)
	}
	return i
}

// pythonCalls are a thread's frames of Python. Each has one in raw.
type pythonCalls struct {
	raw    []python.RawFrame
	frames []python.Frame
	err    string // why there are none
}

// same reports whether the frames are those of another reading.
func (c pythonCalls) same(other pythonCalls) bool {
	return slices.Equal(c.frames, other.frames) && c.err == other.err
}

// pythonOf reads a thread's frames of Python.
func (s *stacks) pythonOf(tid int) (calls pythonCalls) {
	if s.python == nil {
		return calls
	}
	state, ok := s.python.threads[uint32(tid)]
	if !ok {
		return calls
	}
	var err error
	if calls.raw, calls.frames, err = s.python.Raw(state); err != nil {
		calls.err = "Python: " + failure.BareText(err)
	}
	return calls
}

// merge enters a thread's stack: the native frames, and those of Python between them.
func (s *stacks) merge(t *Thread, native []named, calls pythonCalls) {
	if len(calls.frames) == 0 {
		for _, f := range native {
			t.Stack = append(t.Stack, f.name)
		}
		t.StackErr = calls.err
		return
	}
	places := make([]python.Native, len(native))
	for i, f := range native {
		places[i] = python.Native{PC: uint64(f.pc), SP: uint64(f.sp)}
	}
	for _, at := range s.python.Merge(places, calls.raw) {
		if !at.Python {
			t.Stack = append(t.Stack, native[at.Index].name)
			continue
		}
		f := calls.frames[at.Index]
		t.Python = append(t.Python, Call{f.Name, f.File, f.Line})
		t.Stack = append(t.Stack, pythonText(f))
	}
	t.StackErr = calls.err
}

// pythonText returns a frame of Python as stacks show it.
func pythonText(f python.Frame) string {
	return fmt.Sprintf("%s (%s:%d)", f.Name, path.Base(f.File), f.Line)
}

// noteGIL notes which thread holds an interpreter's lock and which wait for it.
func (s *stacks) noteGIL(t *Thread) {
	if s.python == nil {
		return
	}
	for i, g := range s.python.locks {
		lock := &s.process.Python.Locks[i]
		switch {
		case lock.Holder == t.TID:
			t.GIL = "holds"
		case t.Futex != 0 && g.Waits(t.Futex):
			t.GIL = "waits"
			lock.Waiters = append(lock.Waiters, t.TID)
		}
	}
}
