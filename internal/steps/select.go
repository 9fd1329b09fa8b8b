package steps

import (
	"context"
	"errors"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// ErrNoSteps means that a trace has none of the selected steps.
var ErrNoSteps = errors.New("no such steps were found in this trace")

// Selection selects steps of the thread with most kernels in steps: the last ones, or by their numbers.
type Selection struct {
	Last        int64 // 0: by numbers
	From, Until int64 // Until is excluded; 0: to the last one
}

// Selected is selected steps, and all steps of their trace.
type Selected struct {
	Window      traceread.Span // from the first start of their kernels to the last
	Thread      *Thread
	First, Last int64 // their numbers
	All         []*Thread
}

// Select finds the steps of a trace, and the times of those that are selected.
func (s Selection) Select(ctx context.Context, tr *traceread.Trace) (*Selected, error) {
	all, err := Find(ctx, tr, Options{Window: traceread.Always})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, ErrNoSteps
	}
	t := all[0]
	from, until := max(1, s.From), t.Steps+1
	if s.Last > 0 {
		from = max(1, until-s.Last)
	}
	if s.Until > 0 {
		until = min(until, s.Until)
	}
	if from >= until {
		return nil, ErrNoSteps
	}
	one := &Selected{Thread: t, First: from, Last: until - 1, All: all}
	_, err = Find(ctx, tr, Options{Window: traceread.Always, Begin: func() func(Step) error {
		one.Window = traceread.Span{BeginNS: traceread.LatestNS}
		return func(step Step) error {
			if step.Thread.ID == t.ID && step.Number >= from && step.Number < until {
				one.Window.BeginNS, one.Window.EndNS = min(one.Window.BeginNS, step.StartNS), max(one.Window.EndNS, step.EndNS)
			}
			return nil
		}
	}})
	return one, err
}
