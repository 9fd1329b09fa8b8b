package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/rtl-attach/rtl-attach/internal/histogram"
	"github.com/rtl-attach/rtl-attach/internal/ranks"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/internal/whyidle"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// analysis is the result of one pass over the dispatches. Its size does not depend on their
// number.
type analysis struct {
	*state
	windows
	contexts *contexts
	kernels  *kernels
	latency  histogram.Histogram
	longest  longest
	why      *asking // nil: no questions about threads
	filtered *filteredTimes
	ranks    *ranks.Analysis // nil: the trace has no collectives
	leftOut  int64           // impossible times, or no valid context
	inside   int64           // began and ended in the window
}

// windows are the times that an analysis covers.
type windows struct {
	window  traceread.Span // the analysis cuts busy and idle times at its ends
	counted traceread.Span // kernels that start in it are counted
	gaps    int            // how many of the longest gaps to list; 0: mostGaps
	cpu     []whyidle.Window
}

// analyse reads the dispatches in the order in which the recorder wrote them, or sorted if
// that order is too far from the order of starts.
func analyse(tr *traceread.Trace, w windows, found *ranks.Analysis) (*analysis, error) {
	a, err := analyseRows(tr, w, found, recordedOrder, "")
	if errors.Is(err, errDisorder) {
		a, err = analyseRows(tr, w, found, startOrder, " ORDER BY start_ns")
	}
	return a, err
}

// analyseRows reads the dispatches from source, and the times of filtered kernels in the order
// that filteredOrder says in SQL. close the analysis afterwards.
func analyseRows(tr *traceread.Trace, w windows, found *ranks.Analysis, source rowSource, filteredOrder string) (done *analysis, err error) {
	st, err := newState(tr)
	if err != nil {
		return nil, err
	}
	st.declare(w.window)
	a := &analysis{state: st, windows: w, kernels: newKernels(tr.DB), ranks: found, longest: longest{most: cmp.Or(w.gaps, mostGaps)}}
	if len(w.cpu) > 0 {
		a.why = &asking{started: map[startKey]causeTotal{}}
		for _, g := range st.gpus {
			g.asks = true
		}
	}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	a.beginUsage()
	if a.contexts, err = newContexts(st, a.kernels); err != nil {
		return nil, err
	}
	defer a.contexts.query.Close()
	if a.filtered, err = newFilteredTimes(tr, filteredOrder); err != nil {
		return nil, fmt.Errorf("filtered kernels: %w", err)
	}
	defer a.filtered.close()
	a.giveHistograms()
	if err := source(tr, a.visit); err != nil {
		return nil, fmt.Errorf("dispatches: %w", err)
	}
	if err := a.filtered.until(math.MaxInt64, a.leftOutTime); err != nil {
		return nil, fmt.Errorf("filtered kernels: %w", err)
	}
	for _, g := range st.gpus {
		g.order.rest(a.sweep)
		if g.usage != nil {
			g.usage.Finish()
		}
	}
	if err := a.findElsewhere(source); err != nil {
		return nil, err
	}
	return a, a.why.failed()
}

// giveHistograms gives each process a histogram; a single process uses the trace's.
func (a *analysis) giveHistograms() {
	for i, p := range a.processes {
		if len(a.processes) > 1 && i < mostLatencies {
			p.latency = &histogram.Histogram{}
		}
	}
}

// visit analyses a block of rows.
func (a *analysis) visit(rows []row) error {
	for i := range rows {
		r := &rows[i]
		if err := a.filtered.until(r.startNS, a.leftOutTime); err != nil {
			return err
		}
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

// dispatch counts a kernel, and passes it on to be sorted by start. Kernels may arrive in
// any order.
func (a *analysis) dispatch(c *dispatchContext, r *row) error {
	k := pendingKernel{
		startNS: r.startNS, endNS: r.startNS + r.durationNS, submitNS: tracedb.Null,
		packet: r.packet, thread: c.thread, kernel: c.kernel.number, behind: c.behind,
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
			a.latency.Add(r.queuedNS)
			if h := c.queue.session.session.process.latency; h != nil {
				h.Add(r.queuedNS)
			}
		}
	}
	return c.queue.gpu.order.add(c.queue, k, a.sweep)
}

// extend extends the recorded time of a queue, and of its session on the GPU, over a kernel.
func (q *queue) extend(startNS, endNS int64) {
	if q.lastNS == 0 || startNS < q.firstNS {
		q.firstNS = startNS
	}
	q.lastNS = max(q.lastNS, endNS)
}

// sweep analyses the kernels of a GPU in the order of their starts.
func (a *analysis) sweep(q *queue, k *pendingKernel) {
	g := q.gpu
	if one, ok := g.ended(q, k, a.window, a.coarse || k.packet < 0); ok {
		a.longest.add(one)
		a.why.ask(&one)
	}
	if !g.busy.begun || k.endNS >= g.busy.untilNS {
		g.last, g.lastQueue, g.lastKernel = q.session, q, k.kernel
	}
	g.busy.addIn(k.startNS, k.endNS, &g.declared)
	q.busy.add(k.startNS, k.endNS, q.session.declared.Clip(a.window))
	a.use(g, k)
	use := q.session.use
	use.busy.addIn(k.startNS, k.endNS, &use.declared)
	q.session.seen = true
	q.packet = max(q.packet, traceread.Sum(k.packet, k.packetsAfter))
}

// recorded returns the session's declared window. If its begin or end is not known, the
// window covers all kernels of the session.
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

// came returns the number of dispatches, without leftOut.
func (a *analysis) came() (n int64) {
	for _, q := range a.queues {
		n += q.came
	}
	return n
}
