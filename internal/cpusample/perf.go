package cpusample

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// perfLimits says what a Perf does not see.
const perfLimits = "without BPF: native stacks of running threads only; no waits, no wall clock, no Python frames; threads that began while the events were opened may be missing"

const (
	perfEvery = 5 * time.Millisecond // the rings are emptied
	perfMost  = 4096                 // events: one for each thread and processor
)

// causePerf is a cause in rtl_cpu_loss.
const causePerf = "ring of perf events full: samples"

// Perf observes the threads of a process by perf events where BPF cannot be used. It samples the native stacks of running
// threads.
type Perf struct {
	*Process
	fds      []int
	rings    []*perfRing
	missed   uint64 // samples that had no room
	over     chan struct{}
	ending   sync.Once
	finished chan struct{} // closed by the reading goroutine, which owns what is above
}

// ObservePerf begins to observe a process. It needs the right to trace it, or CAP_PERFMON. The process cannot make it hang.
func ObservePerf(t *target.Target, o Options) (*Perf, error) {
	return inTime(func() (*Perf, error) { return observePerf(t, o) })
}

func observePerf(t *target.Target, o Options) (*Perf, error) {
	switch {
	case o.CPU.HZ == 0:
		return nil, errors.New("perf events have the CPU clock only (--sample cpu:99)")
	case len(t.NSPID) > 1:
		return nil, ErrNamespace
	}
	t = t.Beside()
	memory, err := t.Observe()
	if err != nil {
		return nil, err
	}
	alone := &Recorder{options: Options{CPU: o.CPU}} // has no programs
	p := &Perf{
		Process: &Process{recorder: alone, target: t, memory: memory, tree: newTree(), keys: newKeys(), begunNS: boottimeNS()},
		over:    make(chan struct{}), finished: make(chan struct{}),
	}
	p.note(perfLimits)
	if p.code, err = newCode(memory); err == nil {
		err = p.open()
	}
	if err != nil {
		p.closeEvents()
		memory.Close()
		return nil, err
	}
	go p.run()
	return p, nil
}

// open opens an event for each thread on each processor. Threads that these make have them, too.
func (p *Perf) open() error {
	tids, err := p.target.Threads()
	if err != nil {
		return err
	}
	cpus, err := onlineCPUs()
	if err != nil {
		return err
	}
	if len(tids)*len(cpus) > perfMost {
		return fmt.Errorf("%d threads on %d processors are more perf events than the %d that the tool opens", len(tids), len(cpus), perfMost)
	}
	for _, cpu := range cpus {
		if err := p.openOn(cpu, tids); err != nil {
			return fmt.Errorf("perf event: %w", err)
		}
	}
	for _, fd := range p.fds {
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			return fmt.Errorf("perf event: %w", err)
		}
	}
	return nil
}

// openOn opens the events of one processor, which share a ring.
func (p *Perf) openOn(cpu int, tids []int) error {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: uint64(time.Second) / uint64(p.recorder.options.CPU.HZ),
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Clockid: unix.CLOCK_BOOTTIME,
		Sample_type:      unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU | unix.PERF_SAMPLE_REGS_USER | unix.PERF_SAMPLE_STACK_USER,
		Sample_regs_user: perfRegisters, Sample_stack_user: stackMax,
		Bits: unix.PerfBitDisabled | unix.PerfBitInherit | unix.PerfBitUseClockID,
	}
	first := -1
	for _, tid := range tids {
		fd, err := unix.PerfEventOpen(&attr, tid, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV) {
			continue // it has ended, or gone offline
		}
		if err != nil {
			return err
		}
		p.fds = append(p.fds, fd)
		if first >= 0 {
			if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, first); err != nil {
				return err
			}
			continue
		}
		ring, err := newPerfRing(fd)
		if err != nil {
			return err
		}
		first, p.rings = fd, append(p.rings, ring)
	}
	return nil
}

func (p *Perf) closeEvents() {
	for _, r := range p.rings {
		r.close()
	}
	for _, fd := range p.fds {
		_ = unix.Close(fd)
	}
	p.rings, p.fds = nil, nil
}

// run empties the rings until the end.
func (p *Perf) run() {
	defer close(p.finished)
	defer p.closeEvents()
	tick := time.NewTicker(perfEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.over:
			for _, fd := range p.fds {
				_ = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_DISABLE, 0)
			}
			p.drain()
			return
		case <-tick.C:
			p.drain()
		}
	}
}

func (p *Perf) drain() {
	var s stackRecord
	b := &cputrace.Batch{}
	from, until := p.recorder.options.CPU.span(p.begunNS)
	if endedNS := p.endNS(); endedNS > 0 {
		until = min(until, endedNS)
	}
	for _, r := range p.rings {
		p.missed += r.drain(func(body []byte, mode uint32) {
			if err := readPerf(body, &s); err != nil {
				p.refused++
				return
			}
			if s.Pid == uint32(p.target.PID) && s.Time >= from && s.Time < until {
				p.add(&s, mode, b)
			}
		})
	}
	p.keep(b)
}

// add adds a sample. One without registers has no stack.
func (p *Perf) add(s *stackRecord, mode uint32, b *cputrace.Batch) {
	if s.Detail = cputrace.CPUClock | mode<<8; s.base != 0 {
		p.sample(s, b)
		return
	}
	b.Samples = append(b.Samples, cputrace.Sample{TID: s.OwnTid, TimeNS: s.Time, State: int(mode), Processor: int(s.Cpu)})
}

// Window describes the observation.
func (p *Perf) Window() cputrace.Window {
	return cputrace.Window{BegunNS: p.begunNS, Method: "perf", CPUHz: p.recorder.options.CPU.HZ}
}

// End ends the observation now. It does not wait for anything.
func (p *Perf) End() {
	p.ending.Do(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.endedNS = boottimeNS()
		close(p.over)
	})
}

// Stop waits for the last samples, no longer than patience.
func (p *Perf) Stop() {
	p.End()
	if p.hangs() {
		return
	}
	select {
	case <-p.finished:
	case <-time.After(patience):
		p.hang()
	}
}

// Finish writes what is left, the names of the frames, and the window's end, and returns what is missing.
func (p *Perf) Finish(w *cputrace.Writer) ([]cputrace.Loss, error) {
	p.Stop()
	rows := p.Take()
	if p.hangs() {
		losses := hungLosses()
		return losses, errors.Join(w.Write(&rows), w.End(p.endNS(), losses, errHangs.Error()))
	}
	err := errors.Join(w.Write(&rows), w.Name(p.names()))
	losses := lossesOf([]cputrace.Loss{
		{Cause: causePerf, Events: p.missed},
		{Cause: causeTree, Events: p.tree.full},
		{Cause: causeRefused, Events: p.refused},
		{Cause: causeRows, Events: p.dropped},
		{Cause: causeNoRow, Events: w.Omitted()},
	})
	return losses, errors.Join(err, w.End(p.endNS(), losses, p.detail()))
}
