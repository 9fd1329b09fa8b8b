package cpusample

import (
	"errors"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
)

// Causes of missing events, in rtl_cpu_loss.
const (
	causeSamples = "ring full: samples"
	causeStacks  = "ring full: stacks of waits"
	causeWaits   = "ring full: waits"
	causeKernel  = "not reported by the kernel: switches and wakings"
	causeThreads = "limit of threads: waits"
	causeTree    = "limit of stacks: stacks"
	causeRows    = "the trace was not written in time: samples and waits"
	causeRefused = "records of an unknown form"
	causeNoRow   = "threads that the trace has no room for: samples and waits"
)

// Stop ends the observation now: what is in the ring, and the threads that do not run, become rows.
func (p *Process) Stop() {
	r := p.recorder
	if !r.mu.enter(patience) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hung, p.endedNS = true, boottimeNS()
		return
	}
	defer r.mu.leave()
	pid := uint32(p.target.PID)
	if r.processes[pid] != p {
		return
	}
	endedNS := boottimeNS()
	err := r.kernel.objects.Maps[kernelMapTargets].Delete(pid)
	r.drain()
	delete(r.processes, pid)
	b := &cputrace.Batch{}
	err = errors.Join(err, p.takeThreads(b))
	p.keep(b)
	if r.failure != nil {
		p.note("events could not be read: " + r.failure.Error())
	}
	if err != nil {
		p.note("at the end: " + err.Error())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endedNS, p.losses = endedNS, p.lost()
}

// takeThreads takes the waits that have not ended, and the counts of short ones, from the programs' table.
func (p *Process) takeThreads(b *cputrace.Batch) error {
	if !p.recorder.options.Scheduling {
		return nil
	}
	threads := p.recorder.kernel.objects.Maps[kernelMapThreads]
	var over []uint32
	var tid uint32
	var t kernelThread
	all := threads.Iterate()
	for all.Next(&tid, &t) {
		if t.Wait.Event.Pid != uint32(p.target.PID) {
			continue
		}
		over = append(over, tid)
		if t.Off != 0 {
			t.Wait.Event.Time = 0
			p.wait(&t.Wait, b)
		}
		if t.Total.ShortWaits > 0 {
			b.Shorts = append(b.Shorts, cputrace.Short{TID: t.Wait.Event.OwnTid, Waits: t.Total.ShortWaits, NS: t.Total.ShortNs})
		}
	}
	for _, tid := range over {
		_ = threads.Delete(tid) // it may have ended
	}
	return all.Err()
}

// lost returns what is missing, by cause.
func (p *Process) lost() []cputrace.Loss {
	var l kernelLoss
	losses, pid := p.recorder.kernel.objects.Maps[kernelMapLosses], uint32(p.target.PID)
	if err := losses.Lookup(pid, &l); err != nil {
		p.note("what is lost is not known: " + err.Error())
	}
	_ = losses.Delete(pid)
	return lossesOf([]cputrace.Loss{
		{Cause: causeSamples, Events: l.Samples},
		{Cause: causeStacks, Events: l.Stacks},
		{Cause: causeWaits, Events: l.Waits},
		{Cause: causeThreads, Events: l.Threads},
		{Cause: causeKernel, Events: l.Unreported},
		{Cause: causeTree, Events: p.tree.full},
		{Cause: causeRows, Events: p.dropped},
		{Cause: causeRefused, Events: p.recorder.refused},
	})
}

// Close closes what Finish would.
func (p *Process) Close() {
	if !p.hung {
		p.memory.Close()
	}
}

// Finish writes what is left, the names of the frames, and the window's end. It needs the rights to read the
// process's files. It returns what is missing. Stop comes first.
func (p *Process) Finish(w *cputrace.Writer) ([]cputrace.Loss, error) {
	rows := p.Take()
	if p.hung {
		err := errors.Join(w.Write(&rows), w.End(p.endedNS, nil, errHangs.Error()))
		return nil, err
	}
	defer p.memory.Close()
	err := errors.Join(w.Write(&rows), w.Name(p.names()))
	losses := p.losses
	if n := w.Omitted(); n > 0 {
		losses = append(losses, cputrace.Loss{Cause: causeNoRow, Events: n})
	}
	return losses, errors.Join(err, w.End(p.endedNS, losses, p.detail()))
}
