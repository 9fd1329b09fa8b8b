package report

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/internal/whyidle"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// WhyIdle says what kept the GPUs idle: what the threads did that submitted the kernels after the gaps.
type WhyIdle struct {
	GPUs    []WhyIdleGPU `json:"gpus"`
	Losses  []Loss       `json:"losses,omitempty"`  // events of threads that are missing
	Details []string     `json:"details,omitempty"` // what could not be observed, and why
}

// WhyIdleGPU has the causes of one GPU's idle time: their times add up to IdleNS.
type WhyIdleGPU struct {
	GPU         int64       `json:"gpu"`
	IdleNS      int64       `json:"idle_ns"`
	RunningNS   int64       `json:"running_ns"`   // of it, the submitting threads ran, or what they did is known by samples only
	UnsampledNS int64       `json:"unsampled_ns"` // of that, in pieces without a sample
	Samples     int64       `json:"samples"`      // that share out RunningNS
	Causes      []IdleCause `json:"causes"`       // the longest first

	exactWaits, sampledWaits bool  // there are times with --sched, and without
	leastWaitNS              int64 // with --sched: shorter waits count as running
}

// The states of IdleCause. The first ones are of a thread, while the next kernel was not submitted.
const (
	IdleRunning    = "running"
	IdleReady      = "ready"       // it could run, and had no processor
	IdleBlocked    = "blocked"     // it waited
	IdleUnobserved = "unobserved"  // threads were not observed then, or the thread is not known
	IdleNotSampled = "not sampled" // there is no sample: it did not run, or less than samples show, or none was taken; waits were not recorded
	IdleLaunch     = "launch"      // submitted while the GPU was idle, and not started yet
	IdleQueued     = "queued"      // submitted while another kernel ran, after that kernel's end
	IdleOrdered    = "ordered"     // submitted behind a kernel on its queue, with the barrier bit
	IdleBarrier    = "barrier"     // submitted behind a barrier packet
	IdleDependency = "dependency"  // so it was, and a kernel of Queue, of the same process, ended when the gap began, or on GPU when it ended
)

var threadStates = map[whyidle.State]string{
	whyidle.Running: IdleRunning, whyidle.Ready: IdleReady, whyidle.Blocked: IdleBlocked, whyidle.Unobserved: IdleUnobserved,
	whyidle.NotSampled: IdleNotSampled,
}

var startStates = [...]string{
	startLaunch: IdleLaunch, startQueued: IdleQueued, startOrdered: IdleOrdered, startBarrier: IdleBarrier, startDependency: IdleDependency,
	startElsewhere: IdleDependency,
}

// IdleCause is one cause of a GPU's idle time, with its time in all gaps together or in one.
type IdleCause struct {
	NS       int64       `json:"ns"`
	Percent  float64     `json:"percent"` // of the GPU's idle time, or of the gap
	State    string      `json:"state"`   // or the name of a cause in Gaps: copy, unknown, backlog, edge
	Thread   *IdleThread `json:"thread,omitempty"`
	In       *CodePlace  `json:"in,omitempty"`        // absent: not known
	WaitsFor string      `json:"waits_for,omitempty"` // gil, gpu, sleep, or the name or number of the system call
	Waker    *IdleWaker  `json:"waker,omitempty"`     // absent: not known, or a timer
	Queue    int64       `json:"queue,omitempty"`     // of dependency
	GPU      *int64      `json:"gpu,omitempty"`       // of dependency: the queue's, if that is another one
	Kernel   string      `json:"kernel,omitempty"`    // of dependency: the kernel there that ended then, of several the one with the most time
	Times    int64       `json:"times,omitempty"`     // how many pieces; 0: shared out by samples
	Samples  int64       `json:"samples,omitempty"`   // in these pieces
	KernelNS int64       `json:"kernel_ns,omitempty"` // running: of it, in the kernel
	Text     string      `json:"text"`

	frames []whyidle.Frame // of a single stack, the innermost first
	cut    bool            // what has called the outermost one is not known
}

// IdleThread is a thread of a recorded process.
type IdleThread struct {
	PID  int64  `json:"pid"`
	TID  int64  `json:"tid"`
	Name string `json:"name,omitempty"`
}

// CodePlace is a place in code, and the call of a library in which it was.
type CodePlace struct {
	CodeFrame
	Call *CodeFrame `json:"call,omitempty"`
}

// CodeFrame is a function, with its source file and line if they are known, or its ELF file.
type CodeFrame struct {
	Function string `json:"function,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int64  `json:"line,omitempty"`
	Python   bool   `json:"python,omitempty"`
	Object   string `json:"object,omitempty"` // the ELF file of native code
}

// IdleWaker is the thread that ended at least half of the time of a wait, and what it did in at least half of that.
type IdleWaker struct {
	IdleThread
	State string     `json:"state,omitempty"` // running, ready, blocked; absent: another process's, or none was half of it
	In    *CodePlace `json:"in,omitempty"`
	NS    int64      `json:"ns"` // of the cause's time, until this thread ended it

	otherProcess bool
}

// fillWhy answers why each GPU was idle.
func (r *Report) fillWhy(tr *traceread.Trace, a *analysis) error {
	if a.why == nil {
		return nil
	}
	stacks, err := whyidle.OpenStacks(tr)
	if err != nil {
		return err
	}
	defer stacks.Close()
	gaps := make([]whyidle.GapSpan, len(a.longest.gaps))
	for i, g := range a.longest.gaps {
		gaps[i] = whyidle.GapSpan{GPU: g.gpu.id, Span: g.span}
	}
	found, err := whyidle.Find(background, tr, a.windows.cpu, &a.why.questions, gaps, stacks)
	if err != nil {
		return fmt.Errorf("what threads did in the gaps: %w", err)
	}
	w := newExplainer(r, tr, stacks, a.kernels)
	r.WhyIdle = &WhyIdle{GPUs: []WhyIdleGPU{}}
	for i := range r.GPUs {
		if r.GPUs[i].IdleNS > 0 {
			one, err := w.gpu(&r.GPUs[i], found.GPUs[r.GPUs[i].ID], a.why)
			if err != nil {
				return err
			}
			r.WhyIdle.GPUs = append(r.WhyIdle.GPUs, *one)
			if g := found.GPUs[one.GPU]; g != nil && g.DroppedNS > 0 {
				r.WhyIdle.Details = append(r.WhyIdle.Details,
					fmt.Sprintf("GPU %d: too many causes: the stacks of %s of its idle time", one.GPU, duration(g.DroppedNS)))
			}
		}
	}
	for i := range r.LongestGaps {
		if err := w.gap(&r.LongestGaps[i], &a.longest.gaps[i], &found.Gaps[i]); err != nil {
			return err
		}
	}
	return r.fillObserved(tr, a)
}

// fillObserved adds what is missing of the threads.
func (r *Report) fillObserved(tr *traceread.Trace, a *analysis) error {
	losses, err := whyidle.Losses(background, tr)
	if err != nil {
		return err
	}
	for _, l := range losses {
		r.WhyIdle.Losses = append(r.WhyIdle.Losses, Loss{l.Cause, l.Events})
	}
	for _, w := range a.windows.cpu {
		if w.Detail != "" && !slices.Contains(r.WhyIdle.Details, w.Detail) && len(r.WhyIdle.Details) < mostDetails {
			r.WhyIdle.Details = append(r.WhyIdle.Details, w.Detail)
		}
	}
	return nil
}

const mostDetails = 8

// explainer makes causes for readers out of what was found.
type explainer struct {
	tr      *traceread.Trace
	stacks  *whyidle.Stacks
	threads map[int64]*IdleThread
	several bool // processes
	kernels *kernels
}

func newExplainer(r *Report, tr *traceread.Trace, stacks *whyidle.Stacks, names *kernels) *explainer {
	return &explainer{tr: tr, stacks: stacks, threads: map[int64]*IdleThread{}, several: len(r.PerProcess) > 1, kernels: names}
}

// gpu returns the causes of one GPU.
func (w *explainer) gpu(g *GPU, found *whyidle.GPU, asked *asking) (*WhyIdleGPU, error) {
	one := &WhyIdleGPU{GPU: g.ID, IdleNS: g.IdleNS, Causes: []IdleCause{}}
	if found != nil {
		one.RunningNS, one.UnsampledNS, one.Samples = found.RunningNS+found.LooseNS, found.UnsampledNS, found.Samples
		one.exactWaits, one.sampledWaits = found.ExactNS > 0, found.SampledNS > 0
		one.leastWaitNS = found.LeastWaitNS
		var err error
		if one.Causes, err = w.merge(found.Parts); err != nil {
			return nil, err
		}
	}
	others, err := otherCauses(g, asked, w.kernels)
	if err != nil {
		return nil, err
	}
	one.Causes = append(one.Causes, others...)
	finish(one.Causes, one.IdleNS)
	return one, nil
}

// finish sorts causes, and adds their shares.
func finish(all []IdleCause, wholeNS int64) {
	slices.SortStableFunc(all, func(a, b IdleCause) int { return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(a.Text, b.Text)) })
	for i := range all {
		all[i].Percent = percent(all[i].NS, wholeNS)
	}
}

// gap adds the causes of one gap, a cause for each stack.
func (w *explainer) gap(g *Gap, of *gap, found *whyidle.Gap) error {
	for i := range found.Parts {
		c, err := w.single(&found.Parts[i])
		if err != nil {
			return err
		}
		g.Causes = append(g.Causes, c)
	}
	if of.waitedNS > 0 {
		c, err := startedCause(of.started, causeTotal{gaps: 1, totalNS: of.waitedNS}, of.waitedNS, w.kernels)
		if err != nil {
			return err
		}
		g.Causes = append(g.Causes, c)
	}
	finish(g.Causes, g.LengthNS)
	return nil
}

// single returns a part as a cause of its own.
func (w *explainer) single(p *whyidle.Part) (IdleCause, error) {
	c, _, err := w.cause(p)
	if err != nil {
		return c, err
	}
	c.Waker, err = w.woke(p.NS, map[whyidle.Waker]int64{p.Waker: p.NS}, map[whyidle.Waker]map[whyidle.Meanwhile]int64{p.Waker: doingOf(p)})
	c.Text = c.sentence(w.several)
	return c, err
}

// mergeKey is what a reader distinguishes.
type mergeKey struct {
	thread   int64
	state    string
	in       whyidle.Place
	waitsFor string
}

// merged is a cause with all stacks that look the same to a reader.
type merged struct {
	IdleCause
	wakers map[whyidle.Waker]int64
	doing  map[whyidle.Waker]map[whyidle.Meanwhile]int64
}

// merge merges parts whose stacks differ in what a reader need not distinguish.
func (w *explainer) merge(parts []whyidle.Part) ([]IdleCause, error) {
	byKey := map[mergeKey]*merged{}
	var order []*merged
	for i := range parts {
		p := &parts[i]
		c, key, err := w.cause(p)
		if err != nil {
			return nil, err
		}
		m := byKey[key]
		if m == nil {
			c.NS, c.KernelNS, c.Times, c.Samples, c.frames = 0, 0, 0, 0, nil
			m = &merged{IdleCause: c, wakers: map[whyidle.Waker]int64{}, doing: map[whyidle.Waker]map[whyidle.Meanwhile]int64{}}
			byKey[key], order = m, append(order, m)
		}
		m.In.join(c.In)
		m.add(p)
	}
	all := make([]IdleCause, 0, len(order))
	for _, m := range order {
		var err error
		if m.Waker, err = w.woke(m.NS, m.wakers, m.doing); err != nil {
			return nil, err
		}
		m.Text = m.sentence(w.several)
		all = append(all, m.IdleCause)
	}
	return all, nil
}

func (m *merged) add(p *whyidle.Part) {
	m.NS += p.NS
	m.KernelNS += kernelNS(p)
	m.Times += p.Times
	m.Samples += p.Samples
	if p.Waker == (whyidle.Waker{}) {
		return
	}
	m.wakers[p.Waker] += p.NS
	for key, ns := range doingOf(p) {
		if m.doing[p.Waker] == nil {
			m.doing[p.Waker] = map[whyidle.Meanwhile]int64{}
		}
		m.doing[p.Waker][key] += ns
	}
}

// doingOf returns what the waker did, by state and stack.
func doingOf(p *whyidle.Part) map[whyidle.Meanwhile]int64 {
	all := map[whyidle.Meanwhile]int64{}
	for _, m := range p.Meanwhile {
		all[whyidle.Meanwhile{State: m.State, Stack: m.Stack}] += m.NS
	}
	return all
}

// woke returns who ended at least half of the time of a cause, and what that thread did meanwhile; nil: nobody did, or it
// is not known.
func (w *explainer) woke(causeNS int64, wakers map[whyidle.Waker]int64, doing map[whyidle.Waker]map[whyidle.Meanwhile]int64) (*IdleWaker, error) {
	by, key, err := w.waker(wakers)
	if err != nil || by == nil || by.NS < causeNS-by.NS {
		return nil, err
	}
	return by, w.describe(by, doing[key])
}

// thread returns a thread by its row; nil: the trace does not have it.
func (w *explainer) thread(row int64) (*IdleThread, error) {
	if row == tracedb.Null || row == 0 {
		return nil, nil
	}
	if t, known := w.threads[row]; known {
		return t, nil
	}
	t := &IdleThread{}
	var session int64
	err := w.tr.DB.QueryRow("SELECT session_id, tid, coalesce(substr(name, 1, ?), '') FROM rtl_thread WHERE id = ?", traceread.LongestWord, row).
		Scan(&session, &t.TID, &t.Name)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		t = nil
	case err != nil:
		return nil, err
	default:
		if s := w.tr.Session(session); s != nil {
			t.PID = s.Process.ID.PID
		}
	}
	w.threads[row] = t
	return t, nil
}

// errorOf returns how far the share of a cause can be off, in points of the idle time: two standard
// deviations of a half, by the number of samples.
func (g *WhyIdleGPU) errorOf() float64 {
	if g.Samples == 0 {
		return 0
	}
	return percent(g.RunningNS, g.IdleNS) / math.Sqrt(float64(g.Samples))
}
