package cpusample

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/python"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// mostHeld limits the rows that wait to be written.
const mostHeld = 1 << 18

// Process is a process whose threads are observed.
type Process struct {
	recorder *Recorder
	target   *target.Target
	memory   *target.Observed
	files    files
	begunNS  uint64

	// recorder.mu protects these.
	code    *code
	python  *interpreter // nil: none
	locks   []cputrace.Lock
	tree    tree
	keys    keys
	frames  []python.Native
	places  []place
	notes   []string // what could not be observed
	refused uint64   // records of an unknown form before it began
	late    uint64   // records that were not read in time
	ticks   uint64   // of the wall clock, left out

	rowKeeper
	hung     bool // the recorder's thread hangs: what it protects cannot be used
	endedNS  uint64
	losses   []cputrace.Loss
	stopping sync.Once
	stopped  chan struct{}
	emptied  bool // the ring, at its end; valid when stopped is closed
}

// endNS returns when the observation has ended; 0: it has not.
func (p *Process) endNS() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endedNS
}

// Window describes the observation.
func (p *Process) Window() cputrace.Window {
	o := p.recorder.options
	return cputrace.Window{
		BegunNS: p.begunNS, Method: "bpf", CPUHz: o.CPU.HZ, WallHz: o.Wall.HZ, Scheduling: o.Scheduling, LeastWaitNS: uint64(LeastWait), Locks: p.locks,
	}
}

// sample adds the sample of a thread that runs.
func (p *Process) sample(s *stackRecord, b *cputrace.Batch) {
	clock, mode := int(s.Detail&0xff), int(s.Detail>>8&0xff)
	b.Samples = append(b.Samples, cputrace.Sample{
		TID: s.OwnTid, TimeNS: s.Time, Clock: clock, State: mode, Processor: int(s.Cpu), Stack: p.stack(s, b),
	})
}

// asleep adds the sample of a thread that does not run.
func (p *Process) asleep(w *kernelWall, b *cputrace.Batch) {
	b.Samples = append(b.Samples, cputrace.Sample{
		TID: w.Event.OwnTid, TimeNS: w.Event.Time, Clock: cputrace.WallClock, State: cputrace.DidNotRun, Processor: -1, Stack: p.keys.get(w.Key),
	})
}

// stack adds a stack, and returns its id; 0: it is not known.
func (p *Process) stack(s *stackRecord, b *cputrace.Batch) uint32 {
	var complete bool
	p.frames, complete = p.code.walk(s, p.frames[:0])
	p.places = p.places[:0]
	if p.python == nil || len(s.calls) == 0 {
		for _, f := range p.frames {
			p.native(f.PC)
		}
	} else {
		p.merge(s.calls)
	}
	return p.tree.add(p.places, !complete, b)
}

// native appends a native frame.
func (p *Process) native(pc uint64) {
	id, offset := p.code.locate(pc)
	file := ""
	if id != noModule {
		file = sanitize.Text(p.code.modules[id].mapped.Path)
	}
	p.places = append(p.places, place{kind: cputrace.Native, module: id, offset: offset, file: file})
}

// wait adds the wait of a thread that runs again, or of one that does not until the end.
func (p *Process) wait(w *kernelWait, b *cputrace.Batch) {
	row := cputrace.Wait{
		TID: w.Event.OwnTid, OutNS: w.Out, WokenNS: w.Woken, InNS: w.Event.Time, State: stateOf(w.State), Syscall: int(w.Syscall),
		Arguments: [2]uint64{w.Argument0, w.Argument1}, Stack: p.keys.get(w.Key),
	}
	if w.Event.Detail&beganBefore != 0 {
		row.OutNS = p.begunNS
	}
	same := w.WakerPid == uint32(p.target.PID)
	switch {
	case w.Woken == 0 || !isWaker(int(w.WakerSyscall), w, same):
	case same:
		row.WakerTID = w.WakerOwnTid
	case w.WakerOwnTid != 0: // of a process that is observed, too
		row.OtherPID, row.OtherTID = w.WakerPid, w.WakerOwnTid
	default:
		row.OtherPID, row.OtherTID = w.WakerPid, w.WakerTid
	}
	b.Waits = append(b.Waits, row)
}

// stateOf returns a task's state without what the kernel adds to it (include/linux/sched.h: TASK_FREEZABLE, …).
func stateOf(state uint32) uint32 {
	const interruptible, uninterruptible, reported, waking, fresh = 1, 2, 0x7f, 0x200, 0x800
	switch {
	case state&(waking|fresh) != 0:
		return 0
	case state&interruptible != 0:
		return interruptible
	case state == 0 || state&reported != 0:
		return state & reported
	}
	return uninterruptible // a lock of the kernel's
}

func (p *Process) exit(e *kernelTotal, b *cputrace.Batch) {
	b.Shorts = append(b.Shorts, cputrace.Short{TID: e.Event.OwnTid, Waits: e.ShortWaits, NS: e.ShortNs})
}

// detail says what could not be observed; "": nothing.
func (p *Process) detail() string {
	notes := slices.Clone(p.notes)
	for name, c := range map[string]Clock{"cpu": p.recorder.options.CPU, "wall": p.recorder.options.Wall} {
		switch {
		case c.Duration > 0:
			notes = append(notes, fmt.Sprintf("the %s clock ran from %v on, for %v", name, c.Delay, c.Duration))
		case c.Delay > 0:
			notes = append(notes, fmt.Sprintf("the %s clock ran from %v on", name, c.Delay))
		}
	}
	slices.Sort(notes)
	return sanitize.Text(strings.Join(notes, "; "))
}

// mostNotes limits what is said of one process.
const mostNotes = 16

// note notes what could not be observed.
func (p *Process) note(text string) {
	if len(p.notes) < mostNotes && !slices.Contains(p.notes, text) {
		p.notes = append(p.notes, text)
	}
}
