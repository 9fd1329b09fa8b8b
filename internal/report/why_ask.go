package report

import (
	"cmp"
	"slices"
	"sort"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/internal/whyidle"
)

// asking collects the questions of an analysis about threads, and what delayed kernels that were
// submitted.
type asking struct {
	questions whyidle.Questions
	started   map[startKey]causeTotal
	late      whyidle.Questions // about the times in which other ranks waited for the GPU's
	hasLate   bool
	err       error

	barrierWaits int // in the lists of gpuUse
}

// startCause is why a submitted kernel did not start yet, while its GPU was idle.
type startCause struct {
	kind   startKind
	queue  int64 // of startDependency: the queue of the kernel that ended when the gap began, of startElsewhere: when the gap ended,
	gpu    int64 // of startElsewhere: its GPU,
	kernel int32 // and its number, filteredKernel or otherKernel
}

// otherKernel stands for the kernels beyond mostStarted.
const (
	otherKernel = -2
	mostStarted = 1 << 16
)

type startKind int

// The part of a gap after the submit.
const (
	startLaunch     startKind = iota // the GPU was idle when the kernel was submitted
	startQueued                      // it was queued behind a kernel that ran; the time after that kernel's end
	startOrdered                     // so it was, and has the barrier bit
	startBarrier                     // it was submitted behind packets that are not kernels: barriers
	startDependency                  // so it was, and a kernel of another queue of the process ended when the gap began
	startElsewhere                   // so it was, and a kernel of the process on another GPU ended when the gap ended
)

type startKey struct {
	gpu int64
	startCause
}

// askWhy asks for the causes of idle times in threads, if the trace has what threads did.
func (w *windows) askWhy(tr *traceread.Trace, o Options) (err error) {
	if !o.NoWhy {
		w.cpu, err = whyidle.Windows(background, tr)
	}
	return err
}

// ask asks what the submitting thread did in a gap.
func (a *asking) ask(g *gap) {
	if a == nil {
		return
	}
	for _, s := range g.host {
		if err := a.questions.Add(whyidle.Question{GPU: g.gpu.id, Thread: g.thread, Span: s, UntilNS: g.untilNS}); err != nil && a.err == nil {
			a.err = err
		}
	}
	for _, s := range g.late {
		a.hasLate = true
		if err := a.late.Add(whyidle.Question{GPU: g.gpu.id, Thread: g.thread, Span: s, UntilNS: g.untilNS}); err != nil && a.err == nil {
			a.err = err
		}
	}
	if g.waitedNS > 0 && !a.waitElsewhere(g) {
		a.addStarted(g.gpu, g.started, g.waitedNS)
	}
}

// addStarted adds what delayed a submitted kernel.
func (a *asking) addStarted(g *gpu, s startCause, waitedNS int64) {
	key := startKey{g.id, s}
	t, known := a.started[key]
	if !known && len(a.started) >= mostStarted {
		key.kernel = otherKernel
		t = a.started[key]
	}
	t.add(waitedNS)
	a.started[key] = t
}

func (a *asking) failed() error {
	if a == nil {
		return nil
	}
	return a.err
}

// close deletes what the analysis holds outside of memory.
func (a *analysis) close() {
	if a != nil && a.why != nil {
		_ = a.why.questions.Close() // a temporary file without a name
		_ = a.why.late.Close()
	}
}

// askHost finds the recorded times of a gap before the submit in which no copy ran.
func (g *gap) askHost(m measure, submitNS int64) {
	if g.untilNS = submitNS; g.gpu.asks {
		g.gpu.hostSpans = g.gpu.copies.without(m.spansIn(g.span.BeginNS, submitNS), g.gpu.hostSpans[:0])
		g.host = g.gpu.hostSpans
	}
}

// askStart finds out what delayed the kernel after its submit.
func (g *gap) askStart(k *pendingKernel, behind cause, submitNS int64) {
	after := submitNS <= g.span.BeginNS // it was submitted before the gap began
	other := g.gpu.lastQueue != nil && g.gpu.lastQueue != g.queue
	switch {
	case behind == causeDependency && after && other && g.gpu.lastQueue.session.session.process == g.queue.session.session.process:
		g.started = startCause{kind: startDependency, queue: g.gpu.lastQueue.ID, kernel: g.gpu.lastKernel}
	case behind == causeDependency:
		g.started.kind = startBarrier
	case after && k.behind && !other:
		g.started.kind = startOrdered
	case after:
		g.started.kind = startQueued
	default:
		g.started.kind = startLaunch
	}
}

// spansIn returns the recorded parts of a time, in order. They are disjoint.
func (m measure) spansIn(beginNS, endNS int64) []traceread.Span {
	whole := traceread.Span{BeginNS: beginNS, EndNS: endNS}
	if m.spans == nil {
		return []traceread.Span{m.window.Clip(whole)}
	}
	var parts []traceread.Span
	for _, s := range m.spans {
		if s = s.Clip(whole).Clip(m.window); s.BeginNS < s.EndNS {
			parts = append(parts, s)
		}
	}
	slices.SortFunc(parts, func(a, b traceread.Span) int { return cmp.Compare(a.BeginNS, b.BeginNS) })
	var joined intervals
	for _, s := range parts {
		joined.add(s)
	}
	return joined
}

// without appends the parts of some spans that are not in the intervals.
func (in intervals) without(spans, into []traceread.Span) []traceread.Span {
	for _, s := range spans {
		at := s.BeginNS
		first := sort.Search(len(in), func(i int) bool { return in[i].EndNS > s.BeginNS })
		for _, one := range in[first:] {
			if one.BeginNS >= s.EndNS {
				break
			}
			if one.BeginNS > at {
				into = append(into, traceread.Span{BeginNS: at, EndNS: one.BeginNS})
			}
			at = max(at, one.EndNS)
		}
		if at < s.EndNS {
			into = append(into, traceread.Span{BeginNS: at, EndNS: s.EndNS})
		}
	}
	return into
}
