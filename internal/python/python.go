// Package python reads the interpreter of a running process from outside: CPython 3.11 to 3.14. It finds the threads,
// their Python frames with names and lines, and who holds the GIL. It stops and writes nothing. Everything that it reads
// belongs to the process, which may be hostile: each number is checked, each list and each string is limited, text is
// made harmless, and what is not in memory of the interpreter's kind (memory.go) is not read.
package python

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Errors of Find.
var (
	// ErrNone: the process has no CPython.
	ErrNone = errors.New("no CPython in the process")
	// ErrVersion: the process has a CPython whose structures are not known here. The message says which.
	ErrVersion = errors.New("this CPython cannot be read")
	// ErrNotReady: CPython is loaded, and has not started yet, or has ended.
	ErrNotReady = errors.New("CPython is not running yet")
)

// Errors of reading what changes meanwhile.
var (
	// ErrTorn: the process changed what was read at each of several tries.
	ErrTorn = errors.New("it changed while it was read")
	// ErrNoThread: the thread has no Python.
	ErrNoThread = errors.New("no Python in this thread")
	// ErrCut: a stack has more frames than are read. The innermost are returned with it.
	ErrCut = errors.New("the stack is too deep to be read to its end")
)

// Frame is a call of a Python function. Name is its qualified name, File the path that its code object has, Line the
// line that it is at; 0: the instruction has none.
type Frame struct {
	Name, File string
	Line       int
}

// Interpreter is the CPython of a process. Its methods are not for concurrent use.
type Interpreter struct {
	offsets
	memory  *reader
	tids    func() (map[uint32]uint32, error) // the tool's ids of the process's threads, by its own ids
	version string                            // such as "3.12.4"
	runtime uint64                            // address of _PyRuntime

	evalBegin, evalEnd uint64
	tss                uint32
	tssKnown           bool
	codes              cache
	listed             map[uint64]uint32 // the threads of the states that Threads returned last, by the process's own ids
	looked             uint64            // bytes of tables of lines in the look at hand
}

// Find looks for an interpreter among the libraries of a process. It fails with ErrNone if there is none, and with
// ErrVersion if it is one that cannot be read.
func Find(t *target.Target, maps []target.Map) (*Interpreter, error) {
	modules, err := t.Modules(maps)
	if err != nil {
		return nil, err
	}
	for _, m := range modules {
		at, found, err := m.Symbol("_PyRuntime")
		if err != nil {
			return nil, fmt.Errorf("CPython in %s: %w", path.Base(m.Name), err)
		}
		if found {
			return open(t, maps, m, uint64(at))
		}
		if _, found, _ = m.Symbol("Py_IsInitialized"); found {
			return nil, fmt.Errorf("%w: it is older than 3.7", ErrVersion)
		}
	}
	return nil, ErrNone
}

// open reads the interpreter whose _PyRuntime is at an address in a module.
func open(t *target.Target, maps []target.Map, m target.Module, runtime uint64) (*Interpreter, error) {
	ids := tids{t: t}
	p := &Interpreter{runtime: runtime, codes: newCache(), tids: ids.all}
	home, _ := target.FindMap(maps, target.Addr(runtime))
	p.memory = newReader(t, t.Maps, home)
	if err := p.identify(m); err != nil {
		return nil, err
	}
	if begin, size, ok, _ := m.SizedSymbol("_PyEval_EvalFrameDefault"); ok && size >= evalBytesMin {
		p.evalBegin, p.evalEnd = uint64(begin), uint64(begin)+size
	}
	states, err := p.states()
	if err != nil {
		return nil, fmt.Errorf("threads of CPython %s: %w", p.version, err)
	}
	if len(states) == 0 {
		return nil, ErrNotReady
	}
	return p, nil
}

// evalBytesMin is less than the evaluation function has where it is one function: with tail calls (3.14) it is small, and
// its work is done by others.
const evalBytesMin = 16 << 10

// identify finds out the version, and the places in the structures of that version.
func (p *Interpreter) identify(m target.Module) error {
	var head [offsetsBytes]byte
	if err := p.memory.read(p.runtime, head[:]); err != nil {
		return fmt.Errorf("_PyRuntime: %w", err)
	}
	hex := uint64(0)
	if at, found, err := m.Symbol("Py_Version"); err == nil && found {
		if hex, err = p.memory.word(uint64(at)); err != nil {
			return fmt.Errorf("Py_Version: %w", err)
		}
	}
	var err error
	p.version = versionText(hex)
	p.offsets, err = offsetsOf(hex, head[:])
	return err
}

// Version returns the version of CPython, such as "3.12.4".
func (p *Interpreter) Version() string { return p.version }

// Layout are the places in CPython's structures by which a thread's Python frames are found in the kernel: the thread's
// value (at TSS from its thread pointer; TSS 0: by Threads) is a thread state. The pointer to its innermost frame is at
// TstateFrame; if TstateCframe is not 0, the thread state has there a pointer to the structure in which it is. Each frame
// has the code object, the frame before it, the instruction, and a byte that is MarkIs in the frame at which a call of
// the evaluation function ends.
type Layout struct {
	On, TSS, TstateCframe, TstateFrame, FCode, FPrev, FInstr, FMark, MarkIs uint32
}

// Layout returns the places for the kernel.
func (p *Interpreter) Layout() Layout {
	return Layout{
		On: 1, TSS: p.place(), TstateCframe: p.tsCframe, TstateFrame: p.tsFrame,
		FCode: p.fCode, FPrev: p.fPrev, FInstr: p.fInstr, FMark: p.fMark, MarkIs: p.markIs,
	}
}

// versionText returns a version as people write it; hex is CPython's PY_VERSION_HEX.
func versionText(hex uint64) string {
	text := fmt.Sprintf("%d.%d.%d", hex>>24&0xff, hex>>16&0xff, hex>>8&0xff)
	if level := strings.TrimSpace(map[uint64]string{0xa: "a", 0xb: "b", 0xc: "rc"}[hex>>4&0xf]); level != "" {
		text += fmt.Sprintf("%s%d", level, hex&0xf)
	}
	return text
}
