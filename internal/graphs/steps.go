// Package graphs reads what threads submitted, in order: the calls of HIP and the kernels of each thread.
package graphs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Step is what a thread did: it called a function of HIP, or it submitted a kernel.
type Step struct {
	AtNS       int64 // the begin of the call; the submit
	StartNS    int64 // of the kernel
	DurationNS int64 // of the call, or of the kernel
	IsCall     bool

	Function int64 // row of rtl_function
	Failed   bool  // its result is not 0
	Word     int64 // the first argument; Null: none
	Stream   int64 // the handle of its stream; Null: none

	Launch int64 // row of rtl_launch
	Name   int64 // row of rocpd_string
	Queue  int64 // row of rtl_queue
	Packet int64 // its index in the queue
}

// Visitor receives the steps of a thread, in order. It is called again with the thread's next steps. The
// steps are valid during the call.
type Visitor func(session, thread int64, steps []Step) error

// errDisorder means that a step arrived too late: SQLite must sort all steps.
var errDisorder = errors.New("kernels are far from the order of their submits")

// Each passes the kernels of each thread whose submit is known, and with calls the calls of HIP's runtime API,
// to the visitor that begin returns. If the order of the file is too far from the order of steps, it calls
// begin again, and starts again with that visitor.
func Each(ctx context.Context, tr *traceread.Trace, calls bool, begin func() Visitor) error {
	err := inMemory(ctx, tr, calls, begin())
	if errors.Is(err, errDisorder) {
		err = inFiles(ctx, tr, calls, begin())
	}
	return traceread.Interrupted(ctx, err)
}

// room is how many steps are held in memory.
const room = 1 << 18

// thread holds the steps of a thread that are not yet passed on.
type thread struct {
	session, id int64
	steps       []Step
	reachedNS   int64 // of the last step that was passed on
}

// order sorts the steps of each thread.
type order struct {
	visit   Visitor
	threads map[int64]*thread
	pending int
}

func (o *order) add(session, id int64, s *Step) error {
	t := o.threads[id]
	if t == nil {
		if len(o.threads) >= traceread.MostDefinitions {
			return fmt.Errorf("over %d threads: %w", traceread.MostDefinitions, traceread.ErrImpossible)
		}
		t = &thread{session: session, id: id}
		o.threads[id] = t
	}
	t.steps = append(t.steps, *s)
	o.pending++
	return nil
}

// compare sorts by time; a call is before what it submits.
func compare(a, b Step) int {
	switch {
	case a.AtNS != b.AtNS:
		if a.AtNS < b.AtNS {
			return -1
		}
		return 1
	case a.IsCall == b.IsCall:
		return 0
	case a.IsCall:
		return -1
	}
	return 1
}

// pass passes on the earliest steps of all threads until at most left are held.
func (o *order) pass(left int) error {
	if o.pending <= left {
		return nil
	}
	for _, t := range o.threads {
		slices.SortStableFunc(t.steps, compare)
	}
	for o.pending > left {
		until := o.middle()
		for _, t := range o.threads {
			if err := o.passUntil(t, until); err != nil {
				return err
			}
		}
	}
	return nil
}

// middle returns the time in the middle of the held steps, or of one thread's if that is all.
func (o *order) middle() int64 {
	first, last := int64(traceread.LatestNS), int64(0)
	for _, t := range o.threads {
		if n := len(t.steps); n > 0 {
			first, last = min(first, t.steps[0].AtNS), max(last, t.steps[n-1].AtNS)
		}
	}
	return first + (last-first)/2
}

// passUntil passes on the steps of a thread up to a time.
func (o *order) passUntil(t *thread, untilNS int64) error {
	n, _ := slices.BinarySearchFunc(t.steps, untilNS, func(s Step, ns int64) int {
		if s.AtNS <= ns {
			return -1
		}
		return 1
	})
	if n == 0 {
		return nil
	}
	if t.steps[0].AtNS < t.reachedNS {
		return errDisorder
	}
	t.reachedNS = t.steps[n-1].AtNS
	o.pending -= n
	err := o.visit(t.session, t.id, t.steps[:n])
	t.steps = append(t.steps[:0], t.steps[n:]...)
	return err
}

// inMemory reads calls and kernels side by side, in the order of the file.
func inMemory(ctx context.Context, tr *traceread.Trace, calls bool, visit Visitor) error {
	o := &order{visit: visit, threads: map[int64]*thread{}}
	sources, err := open(ctx, tr, calls)
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range sources {
			s.close()
		}
	}()
	for {
		var next *source
		for _, s := range sources {
			if !s.ended && (next == nil || s.reachedNS < next.reachedNS) {
				next = s
			}
		}
		if next == nil {
			return o.pass(0)
		}
		if err := next.read(o); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if o.pending > room {
			if err := o.pass(room / 4); err != nil {
				return err
			}
		}
	}
}

// source is a table of steps.
type source struct {
	blocks    *tracedb.Blocks
	values    []int64
	step      func(row []int64) (session, thread int64, s Step, valid bool, err error)
	reachedNS int64
	ended     bool
	release   func() error
}

func (s *source) close() {
	_ = s.blocks.Close() // the file was only read
	if s.release != nil {
		_ = s.release()
	}
}

// read reads the next rows.
func (s *source) read(o *order) (err error) {
	if s.values, err = s.blocks.Next(s.values); err != nil {
		return err
	}
	s.ended = len(s.values) == 0
	for v := s.values; len(v) > 0; v = v[s.blocks.Width():] {
		session, id, step, valid, err := s.step(v[:s.blocks.Width()])
		if err != nil {
			return err
		}
		if !valid {
			continue
		}
		s.reachedNS = max(s.reachedNS, step.AtNS)
		if err := o.add(session, id, &step); err != nil {
			return err
		}
	}
	return nil
}
