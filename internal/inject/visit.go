package inject

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Pause is one stop of one thread of the target.
type Pause struct {
	TID     int
	Stop    string        // what it was for: "map", "clone", "unmap"
	Time    time.Duration // from the interrupt to the detach
	Stopped time.Duration // of that, from the moment we saw it stopped
	Used    bool          // false: the thread was let go, another was tried
}

// visitor makes threads of the target do raw syscalls, one thread at a time.
type visitor struct {
	t             *target.Target
	tr            *ptrace.Tracer
	libc          *libc
	maps          []target.Map // where stacks are
	patience      time.Duration
	pauses        []Pause
	unreadFilters bool          // go on where seccomp filters cannot be read
	filters       map[int]error // verdicts on threads' filters
	last          int           // thread of the last visit
	hold          bool          // keep hold of the thread whatever it waits in: tells errors
	held          bool          // the last visit did
	desperate     bool          // threads whose wait an interrupt makes longer will do
	stopped       time.Time     // when the last thread was seen to have stopped
	head          header
	fs            uint64

	frame [chainMax]byte
	words [2]uint64
}

// points are the fault points of one visit.
type points struct{ seized, stopped, framed, set, masked Point }

var (
	pointsMap   = points{PointSeized, PointStopped, PointFramed, PointSet, PointMasked}
	pointsClone = points{PointSeized2, PointStopped2, PointFramed2, PointSet2, PointMasked2}
)

// notNow says that this thread cannot be used at this moment.
type notNow string

func (e notNow) Error() string { return string(e) }

const (
	moved      = notNow("it was not in its wait any more")
	noStack    = notNow("it is not on a stack of its own with room to spare")
	foreignFS  = notNow("its fs register points to no thread of libc")
	signalled  = notNow("a signal is about to be delivered to it")
	critical   = notNow("it is in an rseq critical section")
	leaks      = notNow("its syscall returned EINTR")
	otherMode  = notNow("it runs 32-bit code")
	unexpected = notNow("it did not come to the end of a syscall")
)

// codeSegment64 is __USER_CS, what 64-bit user code runs with.
const codeSegment64 = 0x33

// rounds of candidates before a visit gives up, a moment apart.
const rounds = 40

// visit lets one suitable thread make calls. stop names the pause.
func (v *visitor) visit(stop string, pts points, calls []call) error {
	why := errors.New("it has no thread in a wait")
	for round := range rounds {
		list, err := candidates(v.t, v.maps, v.last)
		if err != nil {
			return err
		}
		v.desperate = round > 0
		for _, c := range list {
			// At first only threads in waits without time-out, if any.
			if c.class >= timed && round == 0 && len(list) > 1 && list[0].class < timed {
				break
			}
			err := v.filtered(c)
			if err == nil {
				err = v.stop(stop, c, pts, calls)
			}
			var no notNow
			switch {
			case err == nil:
				v.last = c.tid
				return nil
			case errors.As(err, &no), errors.Is(err, ptrace.ErrNoStop), errors.Is(err, ptrace.ErrGone):
				why = fmt.Errorf("thread %d: %w", c.tid, err)
			default:
				return err
			}
		}
		if err := v.t.Same(); err != nil {
			return err
		}
		time.Sleep(time.Duration(1+round) * 200 * time.Microsecond)
		if maps, err := v.t.Maps(); err == nil {
			v.maps = maps
		}
	}
	return fmt.Errorf("no thread of pid %d can be borrowed: %w", v.t.PID, why)
}

// stop seizes one thread, stops it, and runs calls on it.
func (v *visitor) stop(name string, cand candidate, pts points, calls []call) error {
	p := Pause{TID: cand.tid, Stop: name}
	err := v.tr.Do(func() error {
		c := &ptrace.Tracee{TID: cand.tid}
		return ptrace.Quiet(cand.cpu, func() error {
			if err := c.Seize(); err != nil {
				return err
			}
			if err := at(pts.seized); err != nil {
				return errors.Join(err, v.unseize(c))
			}
			begin := time.Now()
			v.stopped = begin
			err := v.inStop(c, cand, pts, calls)
			p.Time, p.Stopped, p.Used = time.Since(begin), time.Since(v.stopped), err == nil
			return err
		})
	})
	if p.Time > 0 {
		v.pauses = append(v.pauses, p)
	}
	if errors.Is(err, ptrace.ErrDenied) {
		return v.t.Denied(fmt.Sprintf("ptrace of thread %d", cand.tid), err)
	}
	return err
}

// unseize gives up a seized thread: only a stopped one can be detached.
func (v *visitor) unseize(c *ptrace.Tracee) error {
	if _, err := c.Interrupt(v.patience); err != nil {
		return err
	}
	return c.Release()
}

// inStop is the stop itself. Whatever happens, the thread is let go as it was
// or in a chain that makes it so; only a thread that does not stop at all is
// left to the kernel, by the end of the tracer's OS thread.
func (v *visitor) inStop(c *ptrace.Tracee, cand candidate, pts points, calls []call) error {
	stop, err := c.Interrupt(v.patience)
	v.stopped = time.Now()
	if err != nil {
		return err
	}
	if stop.Kind == ptrace.GroupStop {
		return errors.Join(fmt.Errorf("pid %d: %w", v.t.PID, target.ErrStopped), c.Detach())
	}
	if err := at(pts.stopped); err != nil {
		return errors.Join(err, c.Release())
	}
	resume, where, err := v.examine(c, cand, len(calls))
	if err != nil {
		return errors.Join(err, c.Release())
	}
	before, mask, all := c.Regs, c.Mask, ^uint64(0)
	xstate, err := c.ReadXState()
	if err != nil {
		return errors.Join(fmt.Errorf("read vector state: %w", err), c.Release())
	}
	v.held = v.hold || where == ptrace.TimedWait
	links := calls
	if v.held {
		links = calls[:1] // each call is set by hand; the link is for our death
	}
	frame, base, start := v.libc.build(v.frame[:], &before, &resume, mask, xstate, links)
	if err := v.poke(base, frame); err != nil {
		return errors.Join(fmt.Errorf("write below the stack pointer: %w", err), c.Release())
	}
	if err := at(pts.framed); err != nil {
		return errors.Join(err, c.Release())
	}
	// Frame first, then registers, then mask: a tool that dies in between
	// leaves nobody deaf. All signals wait until the thread is itself again.
	if err := c.WriteRegs(&start); err != nil {
		return errors.Join(fmt.Errorf("set registers: %w", err), c.Release())
	}
	err = at(pts.set)
	if err == nil {
		err = c.WriteMask(&all)
	}
	if err == nil {
		err = at(pts.masked)
	}
	if err == nil && v.held {
		err = v.keep(c, &before, &start, calls)
	}
	if err != nil {
		return errors.Join(err, c.WriteRegs(&before), c.WriteMask(&mask), c.Release())
	}
	if v.held {
		return errors.Join(c.WriteRegs(&before), c.WriteMask(&mask), c.Detach())
	}
	return c.Detach()
}

// examine decides whether the stopped thread can be used, and how it resumes.
func (v *visitor) examine(c *ptrace.Tracee, cand candidate, calls int) (resume ptrace.Regs, where ptrace.Where, err error) {
	if err := c.ReadRegs(); err != nil {
		return resume, where, fmt.Errorf("read registers: %w", err)
	}
	if err := c.ReadMask(); err != nil {
		return resume, where, fmt.Errorf("read signal mask: %w", err)
	}
	if c.Regs.Cs != codeSegment64 {
		return resume, where, otherMode
	}
	resume, where = ptrace.Resume(&c.Regs)
	if where == ptrace.User && cand.class != running {
		return resume, where, moved
	}
	if leaking := c.Regs; !v.desperate && cand.class != polls && ptrace.Cure(&leaking) {
		return resume, where, leaks // a time-out that would begin anew
	}
	if !v.ownStack(&c.Regs, calls) {
		return resume, where, noStack
	}
	if err := v.peek(target.Addr(c.Regs.Fs_base), unsafe.Slice((*byte)(unsafe.Pointer(&v.head)), unsafe.Sizeof(v.head))); err != nil || !v.head.valid(c.Regs.Fs_base) {
		return resume, where, foreignFS
	}
	v.fs = c.Regs.Fs_base
	if pending, err := c.Pending(c.Mask); err != nil || pending {
		return resume, where, signalled
	}
	if where == ptrace.User && v.inRSeq(c) {
		return resume, where, critical
	}
	return resume, where, nil
}

// ownStack: the thread runs on the stack that libc or the kernel gave it, not
// on a coroutine's or an alternate one, and there is room for the chain.
func (v *visitor) ownStack(r *ptrace.Regs, calls int) bool {
	m, ok := target.FindMap(v.maps, target.Addr(r.Rsp))
	if !ok || !stackLike(m, r.Rsp, uint64(chainBytes(calls, chainMax/2))) {
		return false
	}
	return m.Path == "[stack]" || (m.Contains(target.Addr(r.Fs_base)) && r.Fs_base > r.Rsp)
}

// inRSeq: the kernel would abort a restartable sequence that is interrupted;
// rt_sigreturn into the middle of one would go unnoticed (rseq(2)).
func (v *visitor) inRSeq(c *ptrace.Tracee) bool {
	area := c.RSeqArea()
	if area == 0 {
		return false
	}
	words := unsafe.Slice((*byte)(unsafe.Pointer(&v.words)), 16)
	// struct rseq: rseq_cs at 8. struct rseq_cs: start_ip at 8, length at 16.
	if v.peek(target.Addr(area+8), words[:8]) != nil || v.words[0] == 0 {
		return false
	}
	if v.peek(target.Addr(v.words[0]+8), words) != nil {
		return true
	}
	return c.Regs.Rip-v.words[0] < v.words[1]
}

// peek and poke are raw reads and writes through the memory descriptor: they
// fail with 0 bytes once the target has executed another program.
func (v *visitor) peek(a target.Addr, b []byte) error { return v.transfer(unix.SYS_PREAD64, a, b) }
func (v *visitor) poke(a target.Addr, b []byte) error { return v.transfer(unix.SYS_PWRITE64, a, b) }

func (v *visitor) transfer(nr uintptr, a target.Addr, b []byte) error {
	n, _, errno := unix.RawSyscall6(nr, uintptr(v.t.MemFD()), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(a), 0, 0)
	switch {
	case errno != 0:
		return errno
	case int(n) != len(b):
		return target.ErrExec
	}
	return nil
}
