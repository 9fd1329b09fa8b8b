package export

import (
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/internal/whyidle"
)

// threadState is a time in which a thread ran, was ready or was blocked.
type threadState struct {
	thread *thread
	traceread.Span
	name  string // such as "running", "blocked: futex"
	waker string // who ended it; "": not known
}

// Names of states.
const (
	stateRunning = "running"
	stateReady   = "ready"
	stateBlocked = "blocked"
)

// threadStates yields the states of the exported threads, those of one thread in order and disjoint. In a
// window without waits there are none. A thread that waits has rows from the window's begin and to its end, so
// there are none before the first row or sample of a thread and after the last one: it may not have existed.
func (e *export) threadStates(visit func(*threadState) error) error {
	windows, err := whyidle.Windows(e.ctx, e.trace.Trace)
	if err != nil || len(windows) == 0 {
		return err
	}
	stacks, err := whyidle.OpenStacks(e.trace.Trace)
	if err != nil {
		return err
	}
	defer stacks.Close()
	s := &stateWriter{export: e, stacks: stacks, windows: map[*traceread.Session][]traceread.Span{}, reached: map[*thread]int64{}, sampled: map[*thread]traceread.Span{}, names: map[stateKey]string{}, visit: visit}
	for _, w := range windows {
		if w.Scheduling {
			s.windows[w.Session] = append(s.windows[w.Session], w.Span)
		}
	}
	if err := whyidle.EachSample(e.ctx, e.trace.Trace, s.sample); err != nil {
		return err
	}
	if err := whyidle.EachWait(e.ctx, e.trace.Trace, windows, s.wait); err != nil {
		return err
	}
	for _, id := range sortedKeys(e.trace.threads) {
		th := e.trace.threads[id]
		if at, known := s.reached[th]; known {
			if err := s.ran(th, at, s.sampled[th].EndNS); err != nil {
				return err
			}
		}
	}
	return nil
}

type stateWriter struct {
	*export
	stacks  *whyidle.Stacks
	windows map[*traceread.Session][]traceread.Span
	reached map[*thread]int64
	sampled map[*thread]traceread.Span // from the first to the last sample in which it ran
	names   map[stateKey]string
	visit   func(*threadState) error
}

// sample notes that a thread ran.
func (s *stateWriter) sample(one *whyidle.Sample) error {
	th := s.trace.threads[one.Thread]
	if th == nil || one.State == cputrace.DidNotRun {
		return nil
	}
	ran, known := s.sampled[th]
	if !known {
		ran.BeginNS = one.TimeNS
	}
	s.sampled[th] = traceread.Span{BeginNS: min(ran.BeginNS, one.TimeNS), EndNS: max(ran.EndNS, one.TimeNS)}
	return nil
}

func (s *stateWriter) wait(w *whyidle.Wait) error {
	th := s.trace.threads[w.Thread]
	if th == nil || !s.trace.isExported(th.session) || len(s.windows[th.session]) == 0 {
		return nil
	}
	at, known := s.reached[th]
	if !known {
		if at = w.OutNS; s.sampled[th].EndNS > 0 {
			at = min(at, s.sampled[th].BeginNS)
		}
	}
	if err := s.ran(th, at, w.OutNS); err != nil {
		return err
	}
	name, err := s.blocked(&w.Cause)
	if err != nil {
		return err
	}
	waker := ""
	if by := s.trace.threads[w.Cause.Waker.Thread]; by != nil {
		waker = by.title()
		if by.name != "" {
			waker = fmt.Sprintf("%s %d", waker, by.tid)
		}
		if by.session.Process != th.session.Process {
			waker = fmt.Sprintf("%s of process %d", waker, by.session.Process.ID.PID)
		}
	} else if w.Cause.Waker.PID > 0 {
		waker = fmt.Sprintf("process %d", w.Cause.Waker.PID)
	}
	for _, one := range []threadState{
		{th, traceread.Span{BeginNS: max(at, w.OutNS), EndNS: w.WokenNS}, name, waker},
		{th, traceread.Span{BeginNS: max(at, w.WokenNS), EndNS: w.InNS}, stateReady, ""},
	} {
		if err := s.give(one); err != nil {
			return err
		}
	}
	s.reached[th] = max(at, w.InNS)
	return nil
}

// ran yields the times in the windows in which a thread ran, from beginNS to endNS.
func (s *stateWriter) ran(th *thread, beginNS, endNS int64) error {
	for _, w := range s.windows[th.session] {
		if err := s.give(threadState{th, w.Clip(traceread.Span{BeginNS: beginNS, EndNS: endNS}), stateRunning, ""}); err != nil {
			return err
		}
	}
	return nil
}

func (s *stateWriter) give(one threadState) error {
	if one.BeginNS >= one.EndNS || !s.trace.inWindow(one.BeginNS) {
		return nil
	}
	return s.visit(&one)
}

// stateKey is what the name of a blocked state depends on.
type stateKey struct {
	syscall, request, stack int64
	gil                     bool
}

// mostStateNames limits the names in memory.
const mostStateNames = 1 << 16

func (s *stateWriter) blocked(c *whyidle.Cause) (string, error) {
	key := stateKey{c.Syscall, c.Request, c.Stack, c.GIL}
	if name, known := s.names[key]; known {
		return name, nil
	}
	frames, _, err := s.stacks.Of(c.Stack)
	if err != nil {
		return "", err
	}
	name := stateBlocked
	if what := whyidle.WaitsFor(c, frames); what != "" {
		name += ": " + what
	}
	if len(s.names) >= mostStateNames {
		clear(s.names)
	}
	s.names[key] = name
	return name, nil
}

// stateTitle returns the name of a thread's row of states.
func (th *thread) stateTitle() string {
	if th.name == "" {
		return fmt.Sprintf("thread %d: state", th.tid)
	}
	return fmt.Sprintf("%s %d: state", sanitize.Text(th.name), th.tid)
}
