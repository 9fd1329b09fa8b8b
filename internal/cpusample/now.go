package cpusample

import (
	"slices"
	"sync"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Now is what is known of an observation that goes on.
type Now struct {
	AtNS   uint64          // everything that happened before is in the rows
	Waits  []cputrace.Wait // that had not ended then; one that has ended since can be in the rows, too
	Losses []cputrace.Loss // since its begin
	Detail string          // what could not be observed
}

// Now makes rows of what has happened, and returns what is known. It takes no longer than patience and a drain. After Stop it
// returns what was known then.
func (p *Process) Now() (Now, error) {
	r := p.recorder
	if p.hangs() || !r.mu.lock(patience) {
		return Now{}, errHangs
	}
	defer r.mu.unlock()
	n := Now{AtNS: boottimeNS(), Detail: p.detail()}
	if r.processes[uint32(p.target.PID)] != p {
		n.AtNS, n.Losses = p.endNS(), p.losses
		return n, nil
	}
	var threads map[uint32]kernelThread
	var err error
	if r.options.Scheduling { // before the ring is read: a wait that ends in between is in it
		threads, err = p.threads(r.kernel.objects.Maps[kernelMapThreads])
	}
	if !r.drain() {
		p.note("events were not read in time")
	}
	n.Losses, n.Waits = p.lostSoFar(), p.waitsAt(n.AtNS, threads)
	return n, err
}

// waitsAt returns the waits of threads that had begun at a time. The ring has been read: it has their stacks.
func (p *Process) waitsAt(atNS uint64, threads map[uint32]kernelThread) []cputrace.Wait {
	b := &cputrace.Batch{}
	for _, t := range threads {
		if t.Off != 0 && t.Wait.Out <= atNS {
			t.Wait.Event.Time = 0
			p.wait(&t.Wait, b)
		}
	}
	return b.Waits
}

// Lost returns what is missing since the begin.
func (p *Process) Lost() []cputrace.Loss {
	r := p.recorder
	if p.hangs() || !r.mu.lock(patience) {
		return nil
	}
	defer r.mu.unlock()
	if r.processes[uint32(p.target.PID)] != p {
		return p.losses
	}
	return p.lostSoFar()
}

// Names returns native frames with their functions, as Finish writes them, but without source lines: those take longer to find
// than a trigger may wait. It needs the rights to read the process's files.
func (p *Process) Names(ids map[uint32]bool) []cputrace.Frame {
	if p.hangs() || !p.recorder.mu.lock(patience) {
		return nil
	}
	wanted := p.nativeFrames(func(id uint32) bool { return ids[id] })
	p.recorder.mu.unlock()
	if !p.files.enter(p.memory) {
		return nil
	}
	named, _ := p.namesIn(func(found chan<- moduleNames, over <-chan struct{}) {
		defer p.files.leave()
		p.findNames(wanted, found, over)
	})
	return named
}

// Now returns what is known.
func (m *Memory) Now() (Now, error) {
	return Now{AtNS: boottimeNS(), Detail: sanitize.Text(memoryLimits), Losses: m.Lost()}, nil
}

// Lost returns what is missing since the begin, up to the last round.
func (m *Memory) Lost() []cputrace.Loss {
	m.mu.Lock()
	defer m.mu.Unlock()
	return lossesOf(append(slices.Clone(m.lost), cputrace.Loss{Cause: causeRows, Events: m.dropped}))
}

// count notes what is missing. The reading goroutine calls it.
func (m *Memory) count() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = m.missing()
}

func (m *Memory) missing() []cputrace.Loss {
	return []cputrace.Loss{
		{Cause: causeTorn, Events: m.spy.Torn},
		{Cause: causeSlow, Events: m.spy.Slow},
		{Cause: causeLate, Events: m.spy.Missed},
		{Cause: causeTree, Events: m.tree.full},
	}
}

// Names returns nothing: Python frames have their names.
func (m *Memory) Names(map[uint32]bool) []cputrace.Frame { return nil }

// files is the access to a process's memory and files, which ends when nobody uses it any more.
type files struct {
	mu     sync.Mutex
	memory *target.Observed
	users  int
	closed bool
}

// enter reports whether the files can be used; leave comes then.
func (f *files) enter(memory *target.Observed) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.memory = memory
	f.users++
	return true
}

func (f *files) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users--; f.closed && f.users == 0 {
		f.memory.Close()
	}
}

// close closes memory, at once or when the last user leaves.
func (f *files) close(memory *target.Observed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	if f.closed, f.memory = true, memory; f.users == 0 {
		memory.Close()
	}
}
