package stuck

import (
	"encoding/binary"
	"fmt"
	"path"
	"regexp"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/unwind"
)

// Limits of what is read of threads.
const (
	threadsMax    = 4096
	stacksMax     = 512
	stackBytesMax = 256 << 10
	framesMax     = 128
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
	s := &stacks{look: l, unwinder: u, functions: map[target.Addr][]target.Symbol{}, handles: l.handles()}
	running := 0
	for _, tid := range tids {
		w, err := waitOf(l.t, tid)
		if err != nil {
			if !target.ThreadEnded(err) {
				l.unseen(fmt.Sprintf("thread %d: %s", tid, failure.BareText(err)))
			}
			continue
		}
		thread := s.thread(tid, w)
		if w.call.Running {
			running++
		}
		l.process.Threads = append(l.process.Threads, thread)
	}
	if running > 0 {
		l.unseen(fmt.Sprintf("the stacks of %d threads that ran at the second look", running))
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
	functions map[target.Addr][]target.Symbol // of a file, by the address of its first mapping
	handles   map[uint64]*Signal
	read      int
}

func (s *stacks) thread(tid int, w wait) Thread {
	t := Thread{
		TID: tid, Name: s.t.Name(tid), State: string(w.state), Same: w.same(s.waits[tid]),
		Call: callName(w.call), Channel: s.t.WaitChannel(tid),
	}
	if w.call.Running || s.unwinder == nil {
		return t
	}
	if s.read++; s.read > stacksMax {
		t.StackErr = "not read: too many threads"
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
		for handle, signal := range s.handles {
			if signal.EventID == event && !slices.Contains(t.Signals, handle) {
				t.Signals = append(t.Signals, handle)
			}
		}
	}
	slices.Sort(t.Signals)
	return t
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
	var within string
	sure, err := s.unwinder.WalkBlocked(c.PC, c.SP, stack, func(pc target.Addr) {
		if len(t.Stack) < framesMax {
			name := s.name(pc)
			t.Stack = append(t.Stack, name)
			if api.MatchString(name) {
				within = name
			}
		}
	})
	if now, rerr := s.t.Syscall(t.TID); rerr != nil || now != c {
		t.Stack, t.StackErr = nil, "the thread ran on while its stack was read"
		return
	}
	if t.Within, t.Unsure = within, !sure; err != nil {
		t.StackErr = failure.BareText(err)
	}
	s.noteHandles(t, stack)
}

// api matches the functions that applications call.
var api = regexp.MustCompile(`^(hip[A-Z]|hsa_|nccl[A-Z]|rccl[A-Z])`)

// noteHandles notes the signals to which a thread's stack refers, if the thread is in a function of HIP or HSA.
func (s *stacks) noteHandles(t *Thread, stack []byte) {
	const near = 16 << 10
	if t.Within == "" {
		return
	}
	for b := stack[:min(len(stack), near)]; len(b) >= 8; b = b[8:] {
		handle := binary.LittleEndian.Uint64(b)
		if s.handles[handle] != nil && !slices.Contains(t.Signals, handle) {
			t.Signals = append(t.Signals, handle)
		}
	}
}

// copyOf copies a stack from sp up to the end of what is in memory.
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
	m.Start = sp &^ 4095
	spans, err := s.t.Present(m, stackBytesMax)
	if err != nil {
		return nil, err
	}
	if len(spans) == 0 || spans[0].Start > sp {
		return nil, fmt.Errorf("stack at %#x is not in memory: %w", sp, target.ErrMalformed)
	}
	b := make([]byte, spans[0].End-sp)
	return b, s.t.Read(sp, b)
}

// name returns the name of the function at an address, or its file and the offset there.
func (s *stacks) name(pc target.Addr) string {
	m, ok := target.FindMap(s.maps, pc)
	if !ok || m.Path == "" {
		return fmt.Sprintf("%#x", uint64(pc))
	}
	image, ok := s.unwinder.ImageAt(pc)
	if !ok {
		return path.Base(m.Path)
	}
	functions, known := s.functions[image.Base]
	if !known {
		functions, _ = s.t.Functions(s.maps, m.Start)
		s.functions[image.Base] = functions
	}
	if name := target.FunctionAt(functions, pc-image.Base); name != "" {
		return readable(name)
	}
	return fmt.Sprintf("%s+%#x", path.Base(m.Path), uint64(pc-image.Base))
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
