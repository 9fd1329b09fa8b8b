// Package steps finds the steps of a program: sequences of kernels that a thread submits again and again, such as the
// prefill and decode steps of a model. It needs no annotations; where ranges of markers or launches of graphs
// are recorded, they bound the steps.
//
// The kernels of each thread are compared by name, in the order of their submits, whatever their queues and grids
// are. A sample of limited size shows which sequences recur (find.go); one pass then compares all kernels with them
// (match.go). Memory does not grow with the trace.
package steps

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/graphs"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// The evidence that a sequence recurs. Kernels in a random order reach it with a probability that the tests show to be
// small.
const (
	leastKernels = 4  // of a step
	leastSteps   = 3  // equal ones
	leastPercent = 50 // of the kernels
)

// Limits of the memory and of the time of a search.
const (
	mostKernels    = 1 << 14 // of a step
	sampleKernels  = 1 << 15 // in which steps are searched for
	mostSamples    = 2       // of a thread
	mostSampled    = 1 << 20 // kernels in the samples of all threads
	mostThreads    = 64
	mostVain       = 1 << 20 // kernels after all threads have been given up: no further thread is expected
	mostKinds      = 8       // of a thread
	mostCandidates = 32      // kernels that may be the only ones with their name in a step

	// Multiples of the median time between submits, from which on there is a gap between steps.
	longGapMultiple    = 4
	longestGapMultiple = 64
)

// Kernel is a kernel of a step.
type Kernel struct {
	Name           int64 // row of rocpd_string
	StartNS, EndNS int64
}

// Step is a step that was found. It is valid during the call.
type Step struct {
	Thread         *Thread
	Kind           *Kind
	Number         int64 // of the thread's steps, from 1 on
	StartNS, EndNS int64 // from the first start to the last end of its kernels
	IdleNS         int64 // in which none of its kernels ran
	Differs        bool  // it is not exactly its kind's sequence
	Kernels        []Kernel
}

// Thread is a thread with steps.
type Thread struct {
	Session, ID int64  // rows
	Marker      int64  // row of the name of the range that is the step; 0: the sequence of kernels shows the steps
	Steps       int64  // found
	In          int64  // kernels in steps
	Kernels     int64  // of the thread whose submit is known
	Kinds       []Kind // the one with most kernels first
}

// Options select what Find does.
type Options struct {
	Window traceread.Span          // kernels that start in it count
	Begin  func() func(Step) error // begins to pass on steps; it may begin again, if SQLite must sort the trace. nil: not wanted
}

var errAllSearched = errors.New("no thread has steps")

// Find finds the steps of all threads; the thread with most kernels in steps is first.
func Find(ctx context.Context, tr *traceread.Trace, o Options) ([]*Thread, error) {
	b, err := readBounds(ctx, tr)
	if err != nil {
		return nil, traceread.Interrupted(ctx, err)
	}
	var s *search
	err = graphs.Each(ctx, tr, false, func() graphs.Visitor {
		s = &search{window: o.Window, bounds: b, threads: map[int64]*finder{}}
		if o.Begin != nil {
			s.visit = o.Begin()
		}
		return s.add
	})
	if err != nil && !errors.Is(err, errAllSearched) {
		return nil, err
	}
	return s.rest()
}

// search looks for steps of all threads.
type search struct {
	window  traceread.Span
	bounds  *bounds
	visit   func(Step) error
	threads map[int64]*finder
	sampled int // kernels in all samples
	given   int // threads that have been given up
	vain    int // kernels that came since all threads are given up
}

func (s *search) add(session, id int64, actions []graphs.Step) error {
	f := s.threads[id]
	if f == nil {
		if len(s.threads) >= mostThreads {
			return nil
		}
		s.vain = 0
		f = newFinder(s, session, id)
		s.threads[id] = f
	}
	if f.given {
		if s.given == len(s.threads) {
			s.vain += len(actions)
		}
		if s.vain >= mostVain {
			return errAllSearched
		}
		return nil
	}
	for i := range actions {
		if k := &actions[i]; k.StartNS >= s.window.BeginNS && k.StartNS < s.window.EndNS {
			if err := f.add(k); err != nil {
				return err
			}
		}
	}
	if f.given {
		if s.given++; s.given == mostThreads {
			return errAllSearched
		}
	}
	return nil
}

// rest ends the search.
func (s *search) rest() (all []*Thread, err error) {
	for _, id := range sortedKeys(s.threads) {
		f := s.threads[id]
		if err := f.end(); err != nil {
			return nil, err
		}
		if t, found := f.thread(); found {
			all = append(all, t)
		}
	}
	slices.SortStableFunc(all, func(a, b *Thread) int { return cmp.Compare(b.In, a.In) })
	return all, nil
}

// kernel is what a finder needs of a kernel.
type kernel struct {
	symbol         int64 // its name, with graphStart
	gapNS          int64 // since the submit of the last one
	startNS, endNS int64
}

// finder finds the steps of a thread: in a sample first, then by comparing all kernels with the sequences that the
// sample has.
type finder struct {
	of      *search
	t       Thread
	atNS    int64 // the last submit
	sample  []kernel
	samples int // in which there was no step
	given   bool
	graphs  cursor
	ranges  *ranges // nil: no range of a marker is the step
	parser  *parser // nil: no sequence is known
}

func newFinder(s *search, session, id int64) *finder {
	f := &finder{of: s, t: Thread{Session: session, ID: id}, graphs: cursor{spans: s.bounds.graphs[id]}}
	if r := s.bounds.ranges[id]; r != nil {
		f.t.Marker = r.name
		f.ranges = &ranges{cursor: cursor{spans: r.spans}, kinds: newKinds(f, nil)}
	}
	return f
}

func (f *finder) add(a *graphs.Step) error {
	k := kernel{symbol: a.Name, startNS: a.StartNS, endNS: a.StartNS + a.DurationNS}
	if f.t.Kernels++; f.t.Kernels > 1 {
		k.gapNS = max(0, a.AtNS-f.atNS)
	}
	f.atNS = a.AtNS
	if f.ranges != nil {
		return f.ranges.add(k, a.AtNS)
	}
	if f.graphs.entered(a.AtNS) {
		k.symbol |= graphStart
	}
	if f.parser != nil {
		return f.parser.add(k)
	}
	f.sample = append(f.sample, k)
	f.of.sampled++
	if len(f.sample) == sampleKernels || f.of.sampled >= mostSampled {
		return f.search()
	}
	return nil
}

// search searches the sample for steps, and drops it.
func (f *finder) search() error {
	patterns := find(f.sample)
	if patterns == nil {
		f.drop()
		f.samples++
		f.given = f.samples >= mostSamples
		return nil
	}
	sample := f.sample
	f.drop()
	f.parser = newParser(newKinds(f, patterns))
	for _, k := range sample {
		if err := f.parser.add(k); err != nil {
			return err
		}
	}
	return nil
}

func (f *finder) drop() {
	f.of.sampled -= len(f.sample)
	f.sample = nil
}

// end ends the search.
func (f *finder) end() error {
	switch {
	case f.ranges != nil:
		return f.ranges.end()
	case f.parser == nil && !f.given:
		if err := f.search(); err != nil {
			return err
		}
	}
	if f.parser != nil {
		return f.parser.end()
	}
	return nil
}

// thread returns the thread with its kinds of steps, if there is enough evidence.
func (f *finder) thread() (*Thread, bool) {
	var ks *kinds
	switch {
	case f.ranges != nil:
		ks = f.ranges.kinds
	case f.parser != nil:
		ks = f.parser.kinds
	default:
		return nil, false
	}
	t := &f.t
	if t.Steps < leastSteps || t.Marker == 0 && t.In*100 < t.Kernels*leastPercent {
		return nil, false
	}
	t.Kinds = ks.results()
	return t, true
}
