// Package cpusample observes what the threads of processes do, from outside, by BPF programs: samples of the stacks of
// threads on a clock, and the times in which threads did not run. Nothing is put into a process, and none is
// stopped. The kernel copies registers, the top of the stack and the chain of Python frames; stacks are unwound here.
package cpusample

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// readEvery is how often the ring is emptied. It has room for 16 MiB: 500 stacks, or 100,000 waits.
const readEvery = 20 * time.Millisecond

// mostProcesses limits the processes that are observed at a time, as the programs' tables do.
const mostProcesses = 1024

// Recorder observes processes. Any goroutine may call its methods.
type Recorder struct {
	options Options
	kernel  *kernel

	beginning timedMutex

	mu        timedMutex          // what is below, and what the processes say that it protects
	processes map[uint32]*Process // nil: it is closed
	ended     map[uint32]*Process // stopped, and not finished
	record    ringbuf.Record
	stack     stackRecord
	refused   uint64 // records of an unknown form
	failure   error  // of the ring

	over chan struct{}
	done sync.WaitGroup
}

// Open loads the programs; it needs CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN. Errors are ErrNamespace, ErrDenied, ErrOld, and
// others of the kernel.
func Open(o Options) (*Recorder, error) {
	k, err := openKernel(o)
	if err != nil {
		return nil, err
	}
	r := &Recorder{options: o, kernel: k, mu: newTimedMutex(), beginning: newTimedMutex(), processes: map[uint32]*Process{}, ended: map[uint32]*Process{}, over: make(chan struct{})}
	r.done.Go(func() { r.every(readEvery, r.read) })
	if o.Wall.HZ > 0 {
		r.done.Go(func() { r.ticks(time.Second / time.Duration(o.Wall.HZ)) })
	}
	return r, nil
}

// every calls what in a period, until the recorder is closed.
func (r *Recorder) every(period time.Duration, what func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-r.over:
			return
		case <-tick.C:
			what()
		}
	}
}

// Close removes the programs. If a thread hangs in the memory of a process, they remain until this process ends.
func (r *Recorder) Close() {
	close(r.over)
	ended := make(chan struct{})
	go func() {
		r.done.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		if r.mu.lock(patience) {
			defer r.mu.unlock()
			r.processes = nil
			r.kernel.close()
		}
	case <-time.After(patience):
	}
}

// errClosed is the error of what comes after Close.
var errClosed = errors.New("the recorder is closed")

// Add begins to observe a process. It needs the privileges that Open needs, and those to read the process's memory. The
// process cannot make it hang.
func (r *Recorder) Add(t *target.Target) (*Process, error) {
	p, err := inTime(func() (*Process, error) { return r.add(t) })
	if errors.Is(err, errHangs) {
		r.forget(uint32(t.PID))
	}
	return p, err
}

func (r *Recorder) add(t *target.Target) (*Process, error) {
	t = t.Beside()
	memory, err := t.Observe()
	if err != nil {
		return nil, err
	}
	p := &Process{recorder: r, target: t, memory: memory, tree: newTree(), keys: newKeys(), stopped: make(chan struct{})}
	if p.code, err = newCode(memory); err == nil {
		p.findPython()
		err = r.observe(p)
	}
	if err != nil {
		memory.Close()
		return nil, err
	}
	if err := r.begin(); err != nil && r.mu.lock(patience) {
		p.note("threads that slept through all of it are not known: " + err.Error())
		r.mu.unlock()
	}
	return p, nil
}

// begin notes the threads that do not run. The program has room for one begin at a time.
func (r *Recorder) begin() error {
	if !r.beginning.lock(patience) {
		return errHangs
	}
	defer r.beginning.unlock()
	return r.kernel.begin()
}

// forget makes the programs record no more of a process.
func (r *Recorder) forget(pid uint32) {
	_ = r.kernel.objects.Maps[kernelMapTargets].Delete(pid) // it may not be there
}

func (r *Recorder) observe(p *Process) error {
	if !r.mu.lock(patience) {
		return errHangs
	}
	defer r.mu.unlock()
	pid := uint32(p.target.PID)
	if r.processes == nil {
		return errClosed
	}
	if r.processes[pid] != nil || len(r.processes) >= mostProcesses {
		return fmt.Errorf("pid %d: it is observed already, or %d others are", pid, mostProcesses)
	}
	p.begunNS, p.refused = boottimeNS(), r.refused
	t := kernelTarget{Level: uint32(max(len(p.target.NSPID)-1, 0)), Seed: p.begunNS}
	t.CpuFrom, t.CpuUntil = r.options.CPU.span(p.begunNS)
	t.WallFrom, t.WallUntil = r.options.Wall.span(p.begunNS)
	if r.options.Scheduling {
		t.Scheduling = 1
	}
	if p.python != nil {
		p.python.layout(&t)
	}
	maps := r.kernel.objects.Maps
	if err := maps[kernelMapLosses].Put(pid, kernelLoss{}); err != nil {
		return fmt.Errorf("observe pid %d: %w", pid, err)
	}
	if err := maps[kernelMapTargets].Put(pid, t); err != nil {
		return fmt.Errorf("observe pid %d: %w", pid, err)
	}
	r.processes[pid] = p
	return nil
}

// read empties the ring.
func (r *Recorder) read() {
	if r.mu.lock(patience) {
		defer r.mu.unlock()
		r.drain()
	}
}

// drainLimit is how long one drain may take.
const drainLimit = 500 * time.Millisecond

// drain reads what is in the ring now, and reports whether that was all. A target that fills it all the time, or whose
// stacks take long to unwind, does not make it longer.
func (r *Recorder) drain() (isEmpty bool) {
	rows := map[*Process]*cputrace.Batch{}
	r.kernel.reader.SetDeadline(time.Unix(1, 0)) // read without waiting
	began := time.Now()
	for left := r.kernel.reader.BufferSize(); left > 0; left -= len(r.record.RawSample) + 8 {
		if time.Since(began) > drainLimit {
			break
		}
		err := r.kernel.reader.ReadInto(&r.record)
		if err != nil {
			isEmpty = true
			if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, ringbuf.ErrFlushed) {
				r.failure = err
			}
			break
		}
		r.take(r.record.RawSample, rows)
	}
	for p, b := range rows {
		p.keep(b)
	}
	for _, p := range r.processes {
		if p.python != nil {
			p.python.refresh(r)
		}
	}
	return isEmpty
}

// take takes a record into the rows of its process.
func (r *Recorder) take(b []byte, rows map[*Process]*cputrace.Batch) {
	event, err := read[kernelEvent](b)
	if err != nil {
		r.refused++
		return
	}
	p := r.processes[event.Pid]
	if p == nil { // it is not observed any more
		if p = r.ended[event.Pid]; p != nil {
			p.late++
		}
		return
	}
	if rows[p] == nil {
		rows[p] = &cputrace.Batch{}
	}
	if err := p.take(event.Kind, b, &r.stack, rows[p]); err != nil {
		r.refused++
	}
}

// take adds what a record says to b.
func (p *Process) take(kind uint32, record []byte, s *stackRecord, b *cputrace.Batch) error {
	switch kind {
	case kindSample, kindStack:
		if err := readStack(record, s); err != nil {
			return err
		}
		if kind == kindStack {
			p.keys.put(s.key, p.stack(s, b))
		} else {
			p.sample(s, b)
		}
	case kindWait:
		w, err := read[kernelWait](record)
		if err != nil {
			return err
		}
		p.wait(&w, b)
	case kindAsleep:
		w, err := read[kernelWall](record)
		if err != nil {
			return err
		}
		p.asleep(&w, b)
	case kindExit:
		e, err := read[kernelTotal](record)
		if err != nil {
			return err
		}
		p.exit(&e, b)
	default:
		return errRecord
	}
	return nil
}

func boottimeNS() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return uint64(t.Nano())
}
