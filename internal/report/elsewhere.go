package report

import (
	"fmt"
	"sort"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// A kernel behind a barrier packet may have waited for a kernel on another GPU of its process. The analysis sorts each
// GPU's kernels apart from the others', so that one is looked for in a second pass, when all gaps are known.

// barrierWait is the part of a gap after the submit of the kernel that ended it, which was behind a barrier packet. No kernel
// of the same GPU explains it.
type barrierWait struct {
	span     traceread.Span // from the submit, or the begin of the gap, to the start of the kernel
	waitedNS int64          // its recorded part
	endedNS  int64          // the end of the last kernel of another GPU that ended in it, at most promptNS before the start; 0: there is none
	queue    *queue         // its queue
	kernel   int32          // its number
}

const (
	mostBarrierWaits = 1 << 20
	mostWaitingGPUs  = 64      // of a process: each row is compared with each of them
	promptNS         = 100_000 // how long after the end of the kernel that it waits for a kernel starts, at most
)

// waitElsewhere keeps the wait of a gap until all are known. False: it has not to be kept.
func (a *asking) waitElsewhere(g *gap) bool {
	if g.started.kind != startBarrier || a.barrierWaits >= mostBarrierWaits {
		return false
	}
	p, u := g.queue.session.session.process, g.queue.session.use
	if len(p.uses) < 2 {
		return false
	}
	if len(u.waits) == 0 {
		if len(p.waiting) >= mostWaitingGPUs {
			return false
		}
		p.waiting = append(p.waiting, u)
	}
	a.barrierWaits++
	u.waits = append(u.waits, barrierWait{span: traceread.Span{BeginNS: max(g.span.BeginNS, g.untilNS), EndNS: g.span.EndNS}, waitedNS: g.waitedNS})
	return true
}

// findElsewhere reads the dispatches once more if kernels waited behind barrier packets, in a process with several GPUs.
func (a *analysis) findElsewhere(source rowSource) error {
	if a.why == nil || a.why.barrierWaits == 0 {
		return nil
	}
	if err := source(a.trace, a.endedElsewhere); err != nil {
		return fmt.Errorf("dispatches: %w", err)
	}
	for _, p := range a.processes {
		for _, u := range p.waiting {
			for i := range u.waits {
				a.why.addStarted(u.gpu, u.waits[i].cause(), u.waits[i].waitedNS)
			}
		}
	}
	for i := range a.longest.gaps {
		if g := &a.longest.gaps[i]; g.started.kind == startBarrier {
			if w := g.queue.session.use.waitUntil(g.span.EndNS); w != nil && w.span.EndNS == g.span.EndNS {
				g.started = w.cause()
			}
		}
	}
	return nil
}

// endedElsewhere finds the waits that kernels may have ended.
func (a *analysis) endedElsewhere(rows []row) error {
	for i := range rows {
		r := &rows[i]
		c, err := a.contexts.find(r.contextID)
		if err != nil {
			return err
		}
		if c.queue == nil || !traceread.Possible(r.startNS, r.durationNS) {
			continue
		}
		for _, u := range c.queue.session.session.process.waiting {
			if u.gpu != c.queue.gpu {
				u.waitUntil(r.startNS+r.durationNS).mayEndBy(c.queue, c.kernel.number, r.startNS+r.durationNS)
			}
		}
	}
	return nil
}

// waitUntil returns the first wait that does not end before a time; nil: there is none. The waits are in the order of their ends.
func (u *gpuUse) waitUntil(ns int64) *barrierWait {
	at := sort.Search(len(u.waits), func(i int) bool { return u.waits[i].span.EndNS >= ns })
	if at == len(u.waits) {
		return nil
	}
	return &u.waits[at]
}

func (w *barrierWait) mayEndBy(q *queue, kernel int32, endNS int64) {
	if w != nil && endNS > max(w.span.BeginNS, w.endedNS) && w.span.EndNS-endNS <= promptNS {
		w.endedNS, w.queue, w.kernel = endNS, q, kernel
	}
}

func (w *barrierWait) cause() startCause {
	if w.queue == nil {
		return startCause{kind: startBarrier}
	}
	return startCause{kind: startElsewhere, queue: w.queue.ID, gpu: w.queue.gpu.id, kernel: w.kernel}
}
