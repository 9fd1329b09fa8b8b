package harness

import (
	"cmp"
	"slices"
	"strings"
	"testing"
)

// CopyComparison compares the copies in all traces of one process with the copies that its GPUs
// made and, if it keeps a log of its calls, with its requests.
type CopyComparison struct {
	faults
	made  *CopyLog
	calls map[int64][]CopyCall // by thread

	All bool // each session began before the program's first call: it has the first ones, too

	Timed, Untimed map[string]int // by the kind of call; "" without a log of calls
	InFlight       int            // the most that a session has not, of those made while it recorded
	Kernels        int            // copies by HIP's kernels, recorded as such
}

// CompareCopies compares the traces of a process that has ended.
func CompareCopies(t testing.TB, p *Process, runs ...Run) *CopyComparison {
	t.Helper()
	c := NewCopyComparison(t, p.CopyTruth(t), p.CopyCalls(t))
	for _, run := range runs {
		copies, account := ReadCopies(t, run.Trace)
		MustSayCopies(t, run.Summary, copies, account)
		tr := ReadTrace(t, run.Trace)
		c.Add(copies, account, tr.Sessions[0])
		c.Kernels += tr.copyKernels()
	}
	c.Finish()
	return c
}

// NewCopyComparison begins a comparison, which removes the copies that it finds from made. Call
// Add for each trace, then Finish.
func NewCopyComparison(t Reporter, made *CopyLog, calls map[int64][]CopyCall) *CopyComparison {
	return &CopyComparison{
		faults: faults{t: t, n: map[string]int{}}, made: made, calls: calls, Timed: map[string]int{}, Untimed: map[string]int{},
	}
}

// copyKernels returns how many dispatches were copies by HIP.
func (tr *Trace) copyKernels() (n int) {
	for _, d := range tr.Dispatches {
		if strings.HasPrefix(tr.Launches[d.Launch].Symbol, "__amd_rocclr_copyBuffer") {
			n++
		}
	}
	return n
}

// Add compares what one session recorded, in the order of submits.
func (c *CopyComparison) Add(copies []Copy, account CopyCoverage, s Session) {
	c.t.Helper()
	if account.Unexplained != 0 {
		c.wrong("unexplained", "%+v", account)
	}
	if len(copies) == 0 {
		return
	}
	if c.calls == nil {
		c.unasked(copies, s)
		return
	}
	byThread := map[int64][]Copy{}
	for _, r := range copies {
		byThread[r.TID] = append(byThread[r.TID], r)
	}
	from, until := notedFrom(copies), notedUntil(copies)
	if c.All {
		from = 0
	}
	for tid, calls := range c.calls {
		c.thread(calls, byThread[tid], from, until)
		delete(byThread, tid)
	}
	for tid, rows := range byThread {
		c.wrong("thread", "%d copied nothing, but %d copies are recorded for it", tid, len(rows))
	}
}

// notedFrom returns a time from which on all threads' copies were noted. The payload's thread may
// be delayed between the session's armed_ns and this.
func notedFrom(copies []Copy) int64 {
	first := slices.MinFunc(copies, func(a, b Copy) int { return cmp.Compare(a.SubmitNS, b.SubmitNS) })
	return first.SubmitNS + stampToleranceNS
}

// notedUntil returns a time until which all threads' copies were noted. The last copy of a thread
// may have a later stamp than the session's end, if the thread was delayed.
func notedUntil(copies []Copy) (ns int64) {
	last := map[int64]int64{}
	for _, r := range copies {
		ns = max(ns, last[r.TID])
		last[r.TID] = r.SubmitNS
	}
	return ns - stampToleranceNS
}

// thread checks that the trace has the copies of one thread: all calls between the two times.
func (c *CopyComparison) thread(calls []CopyCall, rows []Copy, fromNS, untilNS int64) {
	first, _ := slices.BinarySearchFunc(calls, fromNS, func(c CopyCall, ns int64) int { return cmp.Compare(c.BeforeNS, ns) })
	if len(rows) > 0 {
		first = callAt(calls, rows[0].SubmitNS)
	}
	end := first + len(rows)
	if end > len(calls) {
		c.wrong("calls", "%s: %d recorded, %d called since", calls[0].Kind, len(rows), len(calls)-first)
		return
	}
	if first > 0 && calls[first-1].BeforeNS > fromNS || end < len(calls) && calls[end].AfterNS < untilNS {
		c.wrong("missing", "%s: %d recorded from call %d on, of all between %d and %d", calls[0].Kind, len(rows), first, fromNS, untilNS)
	}
	for i, r := range rows {
		c.copy(calls[first+i], r)
	}
}

// copy checks that a copy has the request's values, and its times or the correct reason for their
// absence.
func (c *CopyComparison) copy(asked CopyCall, r Copy) {
	switch {
	case !asked.is(r):
		c.wrong("call", "%+v is recorded as %+v", asked, r)
	case r.Reason != "none":
		c.Untimed[asked.Kind]++
		if r.Reason != asked.reason() {
			c.wrong("untimed", "%s: %s, expected %s", asked.Kind, r.Reason, asked.reason())
		}
	case asked.Kind == "host":
		c.Timed[asked.Kind]++
		if r.StartNS != asked.StartNS || r.EndNS != asked.EndNS {
			c.wrong("times", "%+v, the runtime says %d to %d", r, asked.StartNS, asked.EndNS)
		}
	default:
		c.Timed[asked.Kind]++
		c.wasMade(asked.Signal, r)
	}
}

func (c *CopyComparison) wasMade(signal uint64, r Copy) {
	if err := c.made.Made(signal, r); err != nil {
		c.wrong("times", "%v", err)
	}
}

// unasked compares copies of a program without a log of calls with the GPUs' log only.
func (c *CopyComparison) unasked(copies []Copy, s Session) {
	for _, r := range copies {
		if r.Reason != "none" {
			c.Untimed[""]++
			c.wrong("untimed", "%+v", r)
			continue
		}
		c.Timed[""]++
		c.wasMade(0, r)
	}
	c.InFlight = max(c.InFlight, c.made.between(s.ArmedNS, notedUntil(copies)))
}

// Finish checks that every way to copy was tested, and logs the figures.
func (c *CopyComparison) Finish() {
	c.t.Helper()
	for _, calls := range c.calls {
		if kind := calls[0].Kind; c.Timed[kind]+c.Untimed[kind] == 0 {
			c.wrong("kind", "of %d calls for %s none is recorded", len(calls), kind)
		}
	}
	c.count()
	c.t.Logf("copies timed %v, untimed %v; by kernels %d", c.Timed, c.Untimed, c.Kernels)
}

// Recorded returns the number of recorded copies, with and without times.
func (c *CopyComparison) Recorded() (timed, untimed int) { return sum(c.Timed), sum(c.Untimed) }

// MustHaveRecorded fails if nothing was compared, which would prove nothing.
func (c *CopyComparison) MustHaveRecorded(least int) {
	c.t.Helper()
	if timed, untimed := c.Recorded(); timed+untimed < least {
		c.t.Errorf("only %d copies recorded, expected at least %d", timed+untimed, least)
	}
}

// MustHaveFew checks that few copies were in flight at an attach: at most a copy to the GPU and
// one back for each thread.
func (c *CopyComparison) MustHaveFew(threads int) {
	c.t.Helper()
	if c.InFlight > 2*threads {
		c.t.Errorf("%d copies were made and not recorded", c.InFlight)
	}
}

func sum(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}
