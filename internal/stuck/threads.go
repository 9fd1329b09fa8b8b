package stuck

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/unwind"
)

// Limits of what is read of threads.
const (
	threadsMax    = 4096
	stacksMax     = 512
	stackBytesMax = 256 << 10
	framesMax     = 128
	walksTime     = 20 * time.Second // for all stacks; a walk over hostile tables can take seconds
)

// readThreads makes the second look at the threads.
func (l *look) readThreads() {
	tids, err := l.t.Threads()
	if err != nil {
		l.unseen("threads: " + failure.BareText(err))
		return
	}
	if len(tids) > threadsMax {
		l.unseen(fmt.Sprintf("%d of the threads", len(tids)-threadsMax))
		tids = tids[:threadsMax]
	}
	u, err := unwind.New(l.t)
	if err != nil {
		l.unseen("stacks: " + failure.BareText(err))
	}
	s := &stacks{look: l, unwinder: u, functions: map[target.Addr][]target.Symbol{}, slots: map[target.Addr]string{}, handles: l.handles(), working: l.working(), events: map[uint32][]uint64{}, clocks: cpuClocks{read: target.CPUClock, known: map[int]time.Duration{}}, python: l.openPython()}
	for handle, signal := range s.handles {
		s.events[signal.EventID] = append(s.events[signal.EventID], handle)
	}
	missing, why := 0, ""
	for _, tid := range tids {
		w, err := waitOf(l.t, tid)
		if err != nil {
			if !target.ThreadEnded(err) {
				l.unseen(fmt.Sprintf("thread %d: %s", tid, failure.BareText(err)))
			}
			continue
		}
		thread := s.thread(tid, w)
		if len(thread.Stack) == 0 && thread.StackErr != "" {
			missing++
			why = cmp.Or(why, thread.StackErr)
		}
		l.process.Threads = append(l.process.Threads, thread)
	}
	if missing > 0 {
		l.unseen(fmt.Sprintf("stacks of %s: %s", humanize.Things(missing, "thread"), why))
	}
}

// signals returns the signals of the queues' packets that are not 0.
func (l *look) signals() (found []*Signal) {
	note := func(p *Packet) {
		for _, s := range append(slices.Clone(p.Dependencies), p.Completion) {
			if s != nil && s.Valid && s.Value != 0 {
				found = append(found, s)
			}
		}
	}
	for i := range l.process.Queues {
		q := &l.process.Queues[i]
		if q.Packet != nil {
			note(q.Packet)
		}
		for j := range q.Running {
			note(&q.Running[j])
		}
	}
	return found
}

// handles returns the signals by their handles.
func (l *look) handles() map[uint64]*Signal {
	found := map[uint64]*Signal{}
	for _, s := range l.signals() {
		found[s.Handle] = s
	}
	for handle := range l.completions.by {
		if found[handle] == nil {
			if s := l.signal(handle); s.Valid && s.Value != 0 {
				found[handle] = s
			}
		}
	}
	return found
}

// stacks reads the stacks of a process's threads.
type stacks struct {
	*look
	unwinder  *unwind.Unwinder
	functions map[target.Addr][]target.Symbol // of a file, by its load bias
	slots     map[target.Addr]string          // functions of HSA behind its table
	handles   map[uint64]*Signal
	working   map[uint64]uint64   // ids of queues that are not idle, by their addresses
	events    map[uint32][]uint64 // handles by the driver's event
	read      int
	walking   time.Duration // so far
	sampled   int
	sampling  time.Duration // so far
	clocks    cpuClocks
	python    *interpreter // nil: none
}

func (s *stacks) thread(tid int, w wait) Thread {
	t := Thread{
		TID: tid, Name: s.t.Name(tid), State: string(w.state), Same: w.same(s.waits[tid]),
		Call: callName(w.call), Channel: s.t.WaitChannel(tid),
	}
	s.noteAsleep(&t)
	if s.unwinder == nil {
		return t
	}
	if s.read++; s.read > stacksMax || s.walking > walksTime {
		t.StackErr = "not read: too many threads"
		return t
	}
	began := time.Now()
	defer func() { s.walking += time.Since(began) }()
	if w.call.Running {
		s.sample(&t)
		s.noteGIL(&t)
		return t
	}
	s.walk(&t, w.call)
	if w.call.Number == unix.SYS_FUTEX {
		t.Futex = w.call.Args[0]
		if len(t.Stack) > 0 && slices.ContainsFunc(t.Stack[:min(3, len(t.Stack))], locks.MatchString) {
			t.Holder = s.toolTID(mutexHolder(s.t, t.Futex))
		}
	}
	for _, event := range driverEvents(s.t, w.call) {
		for _, handle := range s.events[event] {
			t.refersTo(handle)
		}
	}
	slices.Sort(t.Signals)
	s.noteGIL(&t)
	return t
}

// referredMax limits the signals to which a thread is said to refer.
const referredMax = 64

// refersTo notes a signal, once.
func (t *Thread) refersTo(handle uint64) {
	if len(t.Signals) < referredMax && !slices.Contains(t.Signals, handle) {
		t.Signals = append(t.Signals, handle)
	}
}

// locks matches the functions of glibc that wait for a mutex.
var locks = regexp.MustCompile(`lll_lock_wait|pthread_mutex_(timed|clock)?lock`)

// toolTID returns the tool's id of a thread; 0: there is none.
func (s *stacks) toolTID(nstid int) int {
	if nstid == 0 {
		return 0
	}
	tid, err := s.t.ThreadByNSPID(nstid)
	if err != nil {
		return 0
	}
	return tid
}

// walk reads a thread's stack while the thread waits. Nothing holds it there: the wait is compared
// afterwards.
func (s *stacks) walk(t *Thread, c target.Syscall) {
	stack, err := s.copyOf(c.SP)
	if err != nil {
		t.StackErr = failure.BareText(err)
		return
	}
	calls := s.pythonOf(t.TID)
	frames, visit := s.collect()
	sure, err := s.unwinder.WalkBlocked(c.PC, c.SP, stack, visit)
	if now, rerr := s.t.Syscall(t.TID); rerr != nil || now != c {
		t.StackErr = "the thread ran on while its stack was read"
		return
	}
	t.Unsure = !sure
	s.show(t, *frames, calls, stack, err)
}

// sample reads the stack of a thread that runs.
func (s *stacks) sample(t *Thread) {
	if s.sampled++; s.sampled > sampledMax || s.sampling > samplesTime {
		t.StackErr = "not read: too many running threads"
		return
	}
	before := s.pythonOf(t.TID)
	began := time.Now()
	snapshot, err := sampleOf(t.TID)
	s.sampling += time.Since(began)
	if err != nil {
		t.StackErr = failure.BareText(err)
		return
	}
	calls := s.pythonOf(t.TID)
	t.Unsure = !calls.same(before) // those at the sample were others
	frames, visit := s.collect()
	err = s.unwinder.Places(snapshot, visit)
	s.show(t, *frames, calls, snapshot.Stack, err)
}

// collect returns the frames that its function is called with.
func (s *stacks) collect() (*[]named, func(pc, sp target.Addr)) {
	frames := new([]named)
	return frames, func(pc, sp target.Addr) {
		if len(*frames) < framesMax {
			f := s.name(pc)
			f.pc, f.sp = pc, sp
			*frames = append(*frames, f)
		}
	}
}

// show enters the frames of a walk that has ended with err, and those of Python.
func (s *stacks) show(t *Thread, frames []named, calls pythonCalls, stack []byte, err error) {
	s.merge(t, frames, calls)
	if err != nil {
		t.StackErr = failure.BareText(err)
	}
	t.Callback = calledBack(frames, s.program)
	within, i := within(frames, err == nil && len(frames) < framesMax)
	if t.Within = within; within != "" && i+1 < len(frames) {
		s.noteHandles(t, stack[:min(uint64(len(stack)), uint64(frames[i+1].sp-frames[0].sp))])
	}
}

// noteHandles notes the signals and queues to which a part of a stack refers: the frames of HIP and HSA. They may have left some
// there before.
func (s *stacks) noteHandles(t *Thread, stack []byte) {
	for b := stack; len(b) >= 8; b = b[8:] {
		word := binary.LittleEndian.Uint64(b)
		if s.handles[word] != nil {
			t.refersTo(word)
		}
		if id, ok := s.working[word]; ok && !slices.Contains(t.Queues, id) {
			t.Queues = append(t.Queues, id)
		}
	}
}

// copyOf copies a stack from sp on. Pages that are not in memory were never written, or are swapped out: they
// are zeros in the copy.
func (s *stacks) copyOf(sp target.Addr) ([]byte, error) {
	m, ok := target.FindMap(s.maps, sp)
	if !ok {
		maps, err := s.t.Maps()
		if err != nil {
			return nil, err
		}
		if m, ok = target.FindMap(maps, sp); !ok {
			return nil, fmt.Errorf("stack at %#x: %w", sp, target.ErrMalformed)
		}
	}
	const page = 4096
	m.Start, m.End = sp&^(page-1), min(m.End, sp&^(page-1)+stackBytesMax)
	spans, err := s.t.Present(m, stackBytesMax)
	if err != nil {
		return nil, err
	}
	b := make([]byte, m.End-sp)
	for _, span := range spans {
		from := max(span.Start, sp)
		if err := s.t.Read(from, b[from-sp:span.End-sp]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// noteWaiters notes at each signal who waits for it.
func (l *look) noteWaiters() {
	for _, s := range l.signals() {
		for _, t := range l.process.Threads {
			if slices.Contains(t.Signals, s.Handle) && !slices.Contains(s.Waiters, t.TID) {
				s.Waiters = append(s.Waiters, t.TID)
			}
		}
	}
}
