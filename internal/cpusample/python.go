package cpusample

import (
	"errors"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/python"
)

// firstFrame is the bit of a call's instruction that marks the first frame of a call of the evaluation loop.
const firstFrame = 1 << 63

// frameMax is how much of a frame the programs read.
const frameMax = 128

// statesEvery is how often the list of thread states is made again, if the programs cannot find them by themselves.
const statesEvery = 100 * time.Millisecond

// interpreter is the Python of a process.
type interpreter struct {
	*python.Interpreter
	places python.Layout
	raw    []python.RawFrame
	states map[uint32]uint64 // that the programs have; nil: they find them by themselves
	next   time.Time
}

// findPython looks for a Python in the process; nil: there is none that can be read.
func (p *Process) findPython() {
	found, err := python.Find(p.target, p.code.maps)
	if errors.Is(err, python.ErrNone) {
		return
	}
	if err != nil {
		p.note("Python frames are not known: " + err.Error())
		return
	}
	found.ReadMaps(p.memory.Maps)
	i := &interpreter{Interpreter: found, places: found.Layout()}
	if i.places.TSS == 0 {
		i.states = map[uint32]uint64{}
	}
	if i.frameBytes() > frameMax {
		p.note("Python frames are not known: their structure is too large")
		return
	}
	p.python = i
	p.findLocks(found)
}

// findLocks finds the interpreters' locks, so that a wait for one is known without the names of functions.
func (p *Process) findLocks(found *python.Interpreter) {
	addresses, err := found.GILAddresses()
	if err != nil {
		p.note("waits for Python's lock are known by the names of functions only: " + err.Error())
		return
	}
	for _, at := range addresses[:min(len(addresses), cputrace.MostLocks)] {
		p.locks = append(p.locks, cputrace.Lock{Kind: cputrace.GIL, Address: at, Bytes: python.GILBytes})
	}
}

// frameBytes returns how much of a frame the programs must read.
func (i *interpreter) frameBytes() uint32 {
	return max(i.places.FCode+8, i.places.FPrev+8, i.places.FInstr+8, i.places.FMark+1)
}

// layout fills in where the programs find the frames of a thread.
func (i *interpreter) layout(t *kernelTarget) {
	to, l := &t.Python, i.places
	to.On, to.Tss, to.TstateCframe, to.TstateFrame = l.On, l.TSS, l.TstateCframe, l.TstateFrame
	to.F_code, to.F_prev, to.F_instr, to.F_mark, to.MarkIs, to.FrameBytes = l.FCode, l.FPrev, l.FInstr, l.FMark, l.MarkIs, i.frameBytes()
	if i.Shims() {
		to.Shims = 1
	}
}

// refresh gives the programs the thread states that they cannot find.
func (i *interpreter) refresh(r *Recorder) {
	if i.states == nil || time.Now().Before(i.next) {
		return
	}
	i.next = time.Now().Add(statesEvery)
	now, err := i.Threads()
	if err != nil {
		return // it changes just now
	}
	table := r.kernel.objects.Maps[kernelMapThreadStates]
	for tid, state := range now {
		if i.states[tid] != state {
			_ = table.Put(tid, state) // a full table: the threads' Python frames are not known
		}
	}
	for tid := range i.states {
		if _, lives := now[tid]; !lives {
			_ = table.Delete(tid)
		}
	}
	i.states = now
}

// merge appends the frames of a stack, the Python ones between the native ones.
func (p *Process) merge(calls []kernelCall) {
	i := p.python
	i.raw = i.raw[:0]
	for _, c := range calls {
		f := python.RawFrame{Code: c.Code, Instr: c.Instr &^ firstFrame, Mark: c.Instr&firstFrame != 0}
		if i.Shim(f) {
			f.Address = f.Instr
		}
		i.raw = append(i.raw, f)
	}
	for _, at := range i.Merge(p.frames, i.raw) {
		if !at.Python {
			p.native(p.frames[at.Index].PC)
			continue
		}
		f, _ := i.Code(i.raw[at.Index].Code, i.raw[at.Index].Instr) // of what is not there any more the name is empty
		p.places = append(p.places, place{kind: cputrace.Python, name: f.Name, file: f.File, line: f.Line})
	}
}
