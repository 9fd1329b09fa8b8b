package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/internal/whyidle"
)

// IdleStack is a part of a GPU's idle time with one stack of the thread that the GPU waited for.
type IdleStack struct {
	GPU    int64
	Frames []whyidle.Frame // the innermost first; none of causes that are not a thread's
	Cut    bool            // what has called the last one is not known
	IdleCause
}

// Label returns the cause's state for users, such as "blocked: futex".
func (s *IdleStack) Label() string {
	switch {
	case s.Thread == nil && s.State != IdleUnobserved:
		return s.Text
	case s.State == IdleBlocked && s.WaitsFor != "":
		return s.State + ": " + s.WaitsFor
	case s.KernelNS > 0: // all of it: a cause of one stack
		return s.State + ": kernel"
	}
	return s.State
}

// mostIdleFrames limits the frames of all stacks in memory; further causes have no stack.
const mostIdleFrames = 1 << 22

// Idle has the causes of the idle times of all GPUs.
type Idle struct {
	Stacks   []IdleStack // the longest first
	Observed bool        // false: the trace does not have what threads did; time before a submit has no stacks
	LeftOut  int64       // dispatches with impossible times, or without a valid context
}

// IdleStacks returns the causes of idle times in a window.
func IdleStacks(tr *traceread.Trace, window traceread.Span) (*Idle, error) {
	r := &Report{}
	w := windows{window: window, counted: window}
	if err := w.askWhy(tr, Options{}); err != nil {
		return nil, err
	}
	if err := r.readAccounts(tr); err != nil {
		return nil, err
	}
	a, err := analyse(tr, w, nil)
	if err != nil {
		return nil, err
	}
	defer a.close()
	r.fillGPUs(a)
	r.fillPerProcess(a)
	out := &Idle{Observed: a.why != nil, LeftOut: a.leftOut}
	if out.Observed {
		out.Stacks, err = r.idleStacks(tr, a)
		return out, err
	}
	for _, g := range r.GPUs {
		for _, c := range g.Gaps {
			out.Stacks = append(out.Stacks, IdleStack{GPU: g.ID, IdleCause: IdleCause{NS: c.TotalNS, State: c.Name, Text: c.Text}})
		}
	}
	return out, nil
}

func (r *Report) idleStacks(tr *traceread.Trace, a *analysis) (all []IdleStack, err error) {
	stacks, err := whyidle.OpenStacks(tr)
	if err != nil {
		return nil, err
	}
	defer stacks.Close()
	found, err := whyidle.Find(background, tr, a.windows.cpu, &a.why.questions, nil, stacks)
	if err != nil {
		return nil, fmt.Errorf("what threads did in the gaps: %w", err)
	}
	w := newExplainer(r, tr, stacks, a.kernels)
	frames := 0
	for i := range r.GPUs {
		g := &r.GPUs[i]
		parts := &whyidle.GPU{}
		if found.GPUs[g.ID] != nil {
			parts = found.GPUs[g.ID]
		}
		for j := range parts.Parts {
			c, err := w.single(&parts.Parts[j])
			if err != nil {
				return nil, err
			}
			one := IdleStack{GPU: g.ID, IdleCause: c}
			if frames += len(c.frames); frames <= mostIdleFrames {
				one.Frames, one.Cut = c.frames, c.cut
			}
			all = append(all, one)
		}
		others, err := otherCauses(g, a.why, a.kernels)
		if err != nil {
			return nil, err
		}
		for _, c := range others {
			all = append(all, IdleStack{GPU: g.ID, IdleCause: c})
		}
	}
	all = slices.DeleteFunc(all, func(s IdleStack) bool { return s.NS <= 0 })
	slices.SortStableFunc(all, func(a, b IdleStack) int { return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(a.GPU, b.GPU)) })
	return all, nil
}
