package report

import (
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// An analysis is what one pass over the dispatches finds. What it holds does
// not grow with them.
type analysis struct {
	*state
	windows
	contexts *contexts
	kernels  *kernels
	latency  histogram
	longest  longest
	leftOut  int64 // impossible times, or nothing to belong to
	inside   int64 // began and ended in the window
}

// windows are the times that an analysis is about.
type windows struct {
	window  traceread.Span // busy and idle times are cut at its ends
	counted traceread.Span // kernels that start in it count
}

// analyse reads the dispatches as the recorder wrote them, or sorted if it must.
func analyse(tr *traceread.Trace, w windows) (*analysis, error) {
	a, err := analyseRows(tr, w, recordedOrder)
	if errors.Is(err, errDisorder) {
		a, err = analyseRows(tr, w, startOrder)
	}
	return a, err
}

func analyseRows(tr *traceread.Trace, w windows, source rowSource) (*analysis, error) {
	st, err := newState(tr)
	if err != nil {
		return nil, err
	}
	st.declare(w.window)
	a := &analysis{state: st, windows: w, kernels: newKernels(tr.DB)}
	if a.contexts, err = newContexts(st, a.kernels); err != nil {
		return nil, err
	}
	defer a.contexts.query.Close()
	a.giveHistograms()
	if err := source(tr, a.visit); err != nil {
		return nil, fmt.Errorf("dispatches: %w", err)
	}
	for _, g := range st.gpus {
		g.order.rest(a.sweep)
	}
	return a, nil
}

// giveHistograms: one process needs none beside the trace's.
func (a *analysis) giveHistograms() {
	for i, p := range a.processes {
		if len(a.processes) > 1 && i < mostLatencies {
			p.latency = &histogram{}
		}
	}
}

// visit takes a block of rows.
func (a *analysis) visit(rows []row) error {
	for i := range rows {
		r := &rows[i]
		c, err := a.contexts.find(r.contextID)
		if err != nil {
			return err
		}
		if c.queue == nil || !traceread.Possible(r.startNS, r.durationNS) {
			a.leftOut++
			continue
		}
		if err := a.dispatch(c, r); err != nil {
			return err
		}
	}
	return nil
}

// dispatch counts a kernel, in whatever order they come, and passes it on to be
// looked at in the order of starts.
func (a *analysis) dispatch(c *dispatchContext, r *row) error {
	k := pendingKernel{
		startNS: r.startNS, endNS: r.startNS + r.durationNS, submitNS: tracedb.Null,
		packet: r.packet, thread: c.thread, kernel: c.kernel.number,
	}
	if r.queuedNS != tracedb.Null {
		if at, known := traceread.Submit(r.startNS, r.queuedNS); known {
			k.submitNS = at
		}
	}
	c.queue.extend(k.startNS, k.endNS)
	c.queue.came++
	if k.startNS >= a.window.BeginNS && k.startNS < a.window.EndNS {
		c.queue.inside++
		if k.endNS <= a.window.EndNS {
			a.inside++
		}
	}
	if k.startNS >= a.counted.BeginNS && k.startNS < a.counted.EndNS {
		c.queue.kernels++
		c.kernel.add(r.durationNS)
		if k.submitNS != tracedb.Null {
			a.latency.add(r.queuedNS)
			if h := c.queue.session.session.process.latency; h != nil {
				h.add(r.queuedNS)
			}
		}
	}
	return c.queue.gpu.order.add(c.queue, k, a.sweep)
}

// extend makes the time of a queue, and of its session on that GPU, reach over a kernel.
func (q *queue) extend(startNS, endNS int64) {
	if q.lastNS == 0 || startNS < q.firstNS {
		q.firstNS = startNS
	}
	q.lastNS = max(q.lastNS, endNS)
}

// sweep takes the kernels of a GPU in the order of their starts.
func (a *analysis) sweep(q *queue, k *pendingKernel) {
	g := q.gpu
	if one, ok := g.ended(q, k, a.window, a.coarse || k.packet < 0); ok {
		a.longest.add(one)
	}
	if !g.busy.begun || k.endNS >= g.busy.untilNS {
		g.last = q.session
	}
	g.busy.addIn(k.startNS, k.endNS, &g.declared)
	q.busy.add(k.startNS, k.endNS, q.session.declared.Clip(a.window))
	use := q.session.use
	use.busy.addIn(k.startNS, k.endNS, &use.declared)
	q.session.seen = true
	q.packet = max(q.packet, k.packet)
}

// recorded returns the session's declared window. Where the file does not say when it
// began or ended, it reaches over the kernels that came.
func (gs *gpuSession) recorded() traceread.Span {
	s := gs.declared
	if !gs.begins {
		s.BeginNS = gs.session.FromNS()
	}
	if !gs.ends {
		s.EndNS = 0
	}
	for _, q := range gs.queues {
		if q.lastNS == 0 {
			continue
		}
		if !gs.begins {
			s.BeginNS = min(s.BeginNS, q.firstNS)
		}
		if !gs.ends {
			s.EndNS = max(s.EndNS, q.lastNS)
		}
	}
	return s
}

// came is how many dispatches there are, without those that were left out.
func (a *analysis) came() (n int64) {
	for _, q := range a.queues {
		n += q.came
	}
	return n
}
