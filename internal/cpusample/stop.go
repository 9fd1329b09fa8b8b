package cpusample

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
)

// Causes of missing events, in rtl_cpu_loss.
const (
	causeSamples = "ring full: samples"
	causeStacks  = "ring full: stacks of waits"
	causeWaits   = "ring full: waits"
	causeKernel  = "not reported by the kernel: switches and wakings"
	causeThreads = "limit of threads: waits"
	causeTicks   = "the tool was late: ticks of the wall clock for threads that wait"
	causeTree    = "limit of stacks: stacks"
	causeRows    = "the trace was not written in time: samples and waits"
	causeRefused = "records of an unknown form"
	causeUnread  = "not read in time: samples and waits"
	causeNoRow   = "threads that the trace has no room for: samples and waits"
)

// Limits of Stop: a process can make unwinding its stacks slow, or hang.
const (
	stopDrains = 4 // of drainLimit each
	stopLimit  = 2*patience + stopDrains*drainLimit
)

// End ends the observation now. It does not wait for anything: Stop takes what there is.
func (p *Process) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.endedNS == 0 {
		p.endedNS = boottimeNS()
		p.recorder.forget(uint32(p.target.PID))
	}
}

// Stop makes rows of what is in the ring, and of the threads that do not run. It takes no longer than stopLimit.
func (p *Process) Stop() {
	p.End()
	p.stopping.Do(func() {
		go func() {
			defer close(p.stopped)
			p.stop()
		}()
		timer := time.NewTimer(stopLimit)
		defer timer.Stop()
		select {
		case <-p.stopped:
		case <-timer.C:
			p.hang()
		}
	})
}

// hang notes that what recorder.mu protects cannot be used.
func (p *Process) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hung = true
}

func (p *Process) hangs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hung
}

// stop is Stop without its limit.
func (p *Process) stop() {
	r := p.recorder
	for range stopDrains {
		if !r.mu.lock(patience) {
			p.hang()
			return
		}
		p.emptied = r.drain()
		r.mu.unlock()
		if p.emptied {
			break
		}
	}
	if !r.mu.lock(patience) {
		p.hang()
		return
	}
	defer r.mu.unlock()
	pid := uint32(p.target.PID)
	if r.processes[pid] != p {
		return
	}
	delete(r.processes, pid)
	if !p.emptied {
		r.ended[pid] = p
	}
	b := &cputrace.Batch{}
	err := p.takeThreads(b)
	p.keep(b)
	if r.failure != nil {
		p.note("events could not be read: " + r.failure.Error())
	}
	if err != nil {
		p.note("at the end: " + err.Error())
	}
	losses := p.lost()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losses = losses
}

// unread returns how many records of the process were left in the ring at the end of stop: they are not unwound any more. It
// is at least 1 if that is not known.
func (p *Process) unread() uint64 {
	if p.emptied {
		return 0
	}
	r := p.recorder
	if !r.mu.lock(patience) {
		return 1
	}
	defer r.mu.unlock()
	r.drain()
	if pid := uint32(p.target.PID); r.ended[pid] == p {
		delete(r.ended, pid)
	}
	return p.late
}

// takeThreads takes the waits that have not ended, and the counts of short ones, from the programs' table.
func (p *Process) takeThreads(b *cputrace.Batch) error {
	if !p.recorder.options.Scheduling {
		return nil
	}
	table, endedNS := p.recorder.kernel.objects.Maps[kernelMapThreads], p.endNS()
	threads, err := p.threads(table)
	for tid, t := range threads {
		if t.Off != 0 {
			t.Wait.Event.Time = 0
			if t.Wait.Woken > endedNS {
				t.Wait.Woken = 0
			}
			p.wait(&t.Wait, b)
		}
		if t.Total.ShortWaits > 0 {
			b.Shorts = append(b.Shorts, cputrace.Short{TID: t.Wait.Event.OwnTid, Waits: t.Total.ShortWaits, NS: t.Total.ShortNs})
		}
		_ = table.Delete(tid) // it may have ended
	}
	return err
}

// threads returns the process's threads in the programs' table. Other threads come and go there, so that the kernel may list
// one twice.
func (p *Process) threads(table *ebpf.Map) (map[uint32]kernelThread, error) {
	threads := map[uint32]kernelThread{}
	var tid uint32
	var t kernelThread
	all := table.Iterate()
	for all.Next(&tid, &t) {
		if t.Wait.Event.Pid == uint32(p.target.PID) {
			threads[tid] = t
		}
	}
	return threads, all.Err()
}

// lost returns what is missing, by cause, and ends the count.
func (p *Process) lost() []cputrace.Loss {
	all := p.lostSoFar()
	_ = p.recorder.kernel.objects.Maps[kernelMapLosses].Delete(uint32(p.target.PID))
	return all
}

func (p *Process) lostSoFar() []cputrace.Loss {
	var l kernelLoss
	if err := p.recorder.kernel.objects.Maps[kernelMapLosses].Lookup(uint32(p.target.PID), &l); err != nil {
		p.note("what is lost is not known: " + err.Error())
	}
	return lossesOf([]cputrace.Loss{
		{Cause: causeSamples, Events: l.Samples},
		{Cause: causeStacks, Events: l.Stacks},
		{Cause: causeWaits, Events: l.Waits},
		{Cause: causeThreads, Events: l.Threads},
		{Cause: causeKernel, Events: l.Unreported},
		{Cause: causeTree, Events: p.tree.full},
		{Cause: causeTicks, Events: p.ticks},
		{Cause: causeRefused, Events: p.recorder.refused - p.refused},
	})
}

// Close closes what Finish would.
func (p *Process) Close() {
	if !p.hangs() {
		p.files.close(p.memory)
	}
}

// Finish writes what is left, the names of the frames, and the window's end. It needs the rights to read the
// process's files. It returns what is missing. Stop comes first.
func (p *Process) Finish(w *cputrace.Writer) ([]cputrace.Loss, error) {
	rows := p.Take()
	if p.hangs() {
		losses := hungLosses()
		return losses, errors.Join(w.Write(&rows), w.End(p.endNS(), losses, errHangs.Error()))
	}
	unread := p.unread()
	err := errors.Join(w.Write(&rows), w.Name(p.names()))
	losses := append(p.losses, lossesOf([]cputrace.Loss{
		{Cause: causeRows, Events: p.dropped},
		{Cause: causeUnread, Events: unread},
		{Cause: causeNoRow, Events: w.Omitted()},
	})...)
	return losses, errors.Join(err, w.End(p.endNS(), losses, p.detail()))
}
