package session

import (
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
	"github.com/rtl-attach/rtl-attach/internal/unwind"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// stackChecker answers the payload's question during its grace period: does this thread have
// a frame in a hook? It stops the threads one by one, copies each stack, and unwinds the copy
// after it has released the thread. Only the goroutine that waits for the payload uses it.
type stackChecker struct {
	target *target.Target
	tracer *ptrace.Tracer
	code   *unwind.Unwinder
	meter  *meter
	stops  []tracedb.Pause
}

// answerLimit limits the time for one answer: about as long as the payload waits for it. The
// payload asks again about threads without a result.
const answerLimit = 5 * time.Second

// answer answers the pending request, if there is one.
func (w *stackChecker) answer(c *ring.Control) {
	ask, ok := c.PendingAsk()
	if !ok {
		return
	}
	if testpoint.Pass(testpoint.Asked) != nil {
		return // it asks again
	}
	deadline := time.Now().Add(answerLimit)
	verdicts := make([]ring.Verdict, len(ask.TIDs))
	for i, tid := range ask.TIDs {
		verdicts[i] = ring.VerdictUnknown
		if i == 0 || time.Now().Before(deadline) {
			verdicts[i] = w.judge(int(tid), ask.Ranges)
		}
	}
	// After the end of the grace period nobody reads the answer.
	_ = c.Answer(ask, verdicts)
}

func (w *stackChecker) judge(nstid int, ranges []ring.Range) ring.Verdict {
	tid, err := w.target.ThreadByNSPID(nstid)
	switch {
	case target.ThreadEnded(err): // final: the payload does not ask about it again
		return ring.VerdictGone
	case err != nil:
		return ring.VerdictUnknown
	}
	if w.code == nil {
		if w.code, err = unwind.New(w.target); err != nil {
			return ring.VerdictUnknown
		}
	}
	snapshot, err := w.stop(tid)
	if err != nil {
		return ring.VerdictUnknown
	}
	inside, complete := w.code.FramesIn(snapshot, spans(ranges))
	switch {
	case inside:
		return ring.VerdictInside
	case complete:
		return ring.VerdictOutside
	}
	return ring.VerdictUnknown
}

func (w *stackChecker) stop(tid int) (*ptrace.Snapshot, error) {
	cpu := -1
	if stat, err := w.target.ThreadStat(tid); err == nil {
		cpu = stat.CPU
		if stat.State == 'D' {
			return nil, ptrace.ErrNoStop // others are waited for as well
		}
	}
	status, err := w.target.ThreadStatus(tid)
	filtered := err != nil || status.Seccomp != 0
	w.meter.watch(w.target.PID)
	began := boottimeNS()
	s, err := w.tracer.StopOnce(w.target.PID, tid, cpu, filtered)
	if err != nil {
		return nil, err
	}
	w.stops = append(w.stops, tracedb.Pause{TID: uint32(tid), StartNS: began, DurationNS: uint64(s.Time), Purpose: "grace"})
	return s, nil
}

func spans(ranges []ring.Range) []unwind.Range {
	out := make([]unwind.Range, len(ranges))
	for i, r := range ranges {
		out[i] = unwind.Range{Start: target.Addr(r.Lo), End: target.Addr(r.Hi)}
	}
	return out
}

// serve answers requests until stop is closed.
func (w *stackChecker) serve(c *ring.Control, stop <-chan struct{}) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			w.answer(c)
		}
	}
}
