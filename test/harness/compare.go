package harness

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/truth"
)

// stampToleranceNS: submits are read from the time-stamp counter, openings of
// windows from the clock.
const stampToleranceNS = 1000

// toleranceNS: the simulator writes ticks of 10 ns, the runtime's conversion
// into its clock adds a few more.
const toleranceNS = 50

// What a trace says of a packet.
const (
	unsaid = iota
	timed
	untimed
	afterDetach
)

// A Comparison is of all traces of one process with its truth log.
type Comparison struct {
	t       testing.TB
	log     *Log
	said    map[Key][]uint8 // parallel to log.Queues
	windows map[Key][]Window
	tids    map[uint64]map[int64]bool // by the workload's thread
	nErrors map[string]int

	missing     []truth.Record // in a window, neither recorded nor explained
	unexplained int64          // the tool's own count of these
	lostAfter   int64          // of these, published after the detach
	rawClaims   int64          // slots that the payload saw claimed raw, by its counter

	Producers bool // the workload's threads live as long as the process: one tid each
	Killed    bool // the target or the recorder: windows stay open, accounts unsettled

	// Figures.
	Dispatches, InWindows, Recorded, Shared, App int
	Untimed                                      map[string]int
	Lost                                         int64
	Outside                                      int // executed while a session was active, in no window
	WorstNS                                      int64
	EarliestSubmitNS                             int64 // after its window's opening; negative: before
}

// Compare begins a comparison; each trace is added, then Finish.
func Compare(t testing.TB, log *Log) *Comparison {
	c := &Comparison{
		t: t, log: log, said: map[Key][]uint8{}, windows: map[Key][]Window{}, tids: map[uint64]map[int64]bool{},
		nErrors: map[string]int{}, Untimed: map[string]int{}, Producers: true, EarliestSubmitNS: 1 << 62,
	}
	for key, records := range log.Queues {
		c.said[key] = make([]uint8, len(records))
	}
	return c
}

// wrong reports the first few of a kind and counts them all.
func (c *Comparison) wrong(kind, format string, args ...any) {
	if c.nErrors[kind]++; c.nErrors[kind] <= 3 {
		c.t.Errorf("%s: %s", kind, fmt.Sprintf(format, args...))
	}
}

// Add compares one trace.
func (c *Comparison) Add(tr *Trace) {
	c.t.Helper()
	// A starved worker loses records, and says so; everything else is a fault.
	for _, l := range tr.Losses {
		c.Lost += l.Records
		if l.Cause != collector.CauseRingFull && !(c.Killed && l.Cause == collector.CauseNoEnd) {
			c.wrong("loss", "%d records: %s", l.Records, l.Cause)
		}
	}
	c.addWindows(tr)
	for i := range tr.Dispatches {
		c.dispatch(tr, &tr.Dispatches[i])
	}
	for _, u := range tr.Untimed {
		c.untimed(tr, u)
	}
	for _, w := range tr.Windows {
		c.window(tr, w)
	}
	c.coverage(tr)
	c.outside(tr)
	c.Dispatches += len(tr.Dispatches)
	c.rawClaims += tr.Counters["raw_claims"] + tr.Counters["queues_refused"]
}

func (c *Comparison) addWindows(tr *Trace) {
	for _, w := range tr.Windows {
		key := tr.Queues[w.Queue].Key
		for _, other := range c.windows[key] {
			if w.First < other.End && other.First < w.End {
				c.wrong("overlap", "queue %+v: windows %d..%d and %d..%d", key, w.First, w.End, other.First, other.End)
			}
		}
		if w.Closed {
			c.windows[key] = append(c.windows[key], w)
		}
	}
}

func (c *Comparison) windowOf(key Key, index uint64) *Window {
	for i := range c.windows[key] {
		if w := &c.windows[key][i]; index >= w.First && index < w.End {
			return w
		}
	}
	return nil
}

func (c *Comparison) dispatch(tr *Trace, d *Dispatch) {
	q, launch := tr.Queues[d.Queue], tr.Launches[d.Launch]
	records := c.log.Queues[q.Key]
	i := at(records, d.Index)
	if i < 0 || records[i].Kind != truth.Kernel {
		c.wrong("unknown", "queue %+v packet %d is recorded, but no such kernel was executed", q.Key, d.Index)
		return
	}
	r := &records[i]
	c.say(q.Key, i, timed)
	start, end := d.StartNS-int64(r.StartNS), d.EndNS-int64(r.EndNS)
	c.WorstNS = max(c.WorstNS, start, -start, end, -end)
	if max(start, -start, end, -end) > toleranceNS {
		c.wrong("times", "start %+d ns, end %+d ns (flags %d): %v", start, end, d.Flags, *r)
	}
	if strings.TrimSuffix(launch.Symbol, ".kd") != r.Name || launch.Object != r.Object {
		c.wrong("kernel", "%q object %#x: %v object %#x", launch.Symbol, launch.Object, *r, r.Object)
	}
	if q.GPU != int64(r.Node) || launch.GPU != int64(r.Node) {
		c.wrong("agent", "queue on GPU %d, code of GPU %d: %v", q.GPU, launch.GPU, *r)
	}
	if d.AppSignal {
		c.App++
	}
	c.submit(q.Key, d, r)
}

func (c *Comparison) submit(key Key, d *Dispatch, r *truth.Record) {
	w := c.windowOf(key, d.Index)
	if w == nil && len(c.windows[key]) > 0 && !c.Killed {
		c.wrong("window", "recorded outside of every window: %v", *r)
	}
	if !d.SubmitKnown {
		return
	}
	if d.QueuedNS < 0 {
		c.wrong("submit", "%d ns after the start: %v", -d.QueuedNS, *r)
	}
	if w != nil {
		slack := d.StartNS - d.QueuedNS - w.OpenedNS
		c.EarliestSubmitNS = min(c.EarliestSubmitNS, slack)
		if slack < -stampToleranceNS {
			c.wrong("submit", "%d ns before its window was opened: %v", -slack, *r)
		}
	}
	if r.UniqueID == 0 || d.TID == 0 {
		return
	}
	producer := r.UniqueID >> 40
	if c.tids[producer] == nil {
		c.tids[producer] = map[int64]bool{}
	}
	c.tids[producer][d.TID] = true
}

func (c *Comparison) say(key Key, i int, what uint8) {
	if had := c.said[key][i]; had != unsaid {
		c.wrong("duplicate", "said twice (%d, %d): %v", had, what, c.log.Queues[key][i])
	}
	c.said[key][i] = what
}

func (c *Comparison) untimed(tr *Trace, u Untimed) {
	key := tr.Queues[u.Queue].Key
	records := c.log.Queues[key]
	for index := u.Index; index < u.Index+u.Packets; index++ {
		i := at(records, index)
		switch {
		case u.Reason == "after-detach":
			if i < 0 {
				c.wrong("unknown", "queue %+v packet %d was claimed, but never executed", key, index)
				continue
			}
			c.say(key, i, afterDetach)
		case i < 0 || records[i].Kind != truth.Kernel:
			c.wrong("unknown", "queue %+v packet %d is untimed (%s), but no such kernel was executed", key, index, u.Reason)
			continue
		default:
			c.say(key, i, untimed)
		}
		c.Untimed[u.Reason]++
	}
}

// window checks that everything between its ends is accounted for, and that
// the payload counted right.
func (c *Comparison) window(tr *Trace, w Window) {
	q := tr.Queues[w.Queue]
	if !w.Closed {
		if !c.Killed {
			c.wrong("open", "window of queue %+v from %d was never closed", q.Key, w.First)
		}
		return
	}
	records := c.log.Queues[q.Key]
	var dispatches, others, after int64
	for index := w.First; index < w.End; index++ {
		i := at(records, index)
		if i < 0 {
			c.wrong("window", "queue %+v: packet %d of window %d..%d was never executed", q.Key, index, w.First, w.End)
			continue
		}
		said := c.said[q.Key][i]
		switch {
		case said == afterDetach:
			after++
		case records[i].Kind != truth.Kernel:
			others++
		default:
			dispatches++
			c.InWindows++
			if said == timed {
				c.Recorded++
			} else if said == unsaid {
				c.missing = append(c.missing, records[i])
			}
		}
	}
	lost := w.After - after // the record of slots that were claimed only
	if c.Lost > 0 && lost > 0 && dispatches-lost == w.Dispatches {
		c.lostAfter += lost
		dispatches, after = w.Dispatches, w.After
	}
	if dispatches != w.Dispatches || others != w.Others || after != w.After {
		c.wrong("count", "queue %+v window %d..%d: %d dispatches, %d others, %d after the detach; the truth: %d, %d, %d",
			q.Key, w.First, w.End, w.Dispatches, w.Others, w.After, dispatches, others, after)
	}
}

// coverage recomputes rtl_coverage from the rows.
func (c *Comparison) coverage(tr *Trace) {
	want := map[int64]*Coverage{}
	of := func(queue int64) *Coverage {
		if want[queue] == nil {
			want[queue] = &Coverage{Queue: queue}
		}
		return want[queue]
	}
	for _, d := range tr.Dispatches {
		of(d.Queue).Timed++
	}
	for _, u := range tr.Untimed {
		if u.Reason != "after-detach" {
			of(u.Queue).Untimed += int64(u.Packets)
		}
	}
	for _, w := range tr.Windows {
		cov := of(w.Queue)
		cov.Windows++
		cov.Dispatches += w.Dispatches
		cov.Others += w.Others
		cov.After += w.After
		cov.RawBefore = max(cov.RawBefore, w.RawBefore)
		if !w.Closed {
			cov.WindowsOpen++
		}
	}
	for _, got := range tr.Coverage {
		w := of(got.Queue)
		if w.WindowsOpen == 0 {
			w.Unexplained = w.Dispatches - w.Timed - w.Untimed
		}
		if got != *w {
			c.wrong("coverage", "rtl_coverage %+v, its rows say %+v", got, *w)
		}
		c.unexplained += got.Unexplained
		delete(want, got.Queue)
	}
	for _, w := range want {
		if c.Killed {
			break
		}
		c.wrong("coverage", "no row in rtl_coverage for %+v", *w)
	}
}

// settleNS: at its beginning, a session has queues that have not flipped yet,
// and the hardware may still work on what was claimed before.
const settleNS = 100e6

// outside counts what ran in the middle of a session and belongs to no window:
// queues that were never seen, or that never turned virtual.
func (c *Comparison) outside(tr *Trace) {
	for _, s := range tr.Sessions {
		if s.ArmedNS == 0 || s.DetachedNS == 0 {
			continue
		}
		for key, records := range c.log.Queues {
			for i := range records {
				r := &records[i]
				in := r.Kind == truth.Kernel && int64(r.StartNS) > s.ArmedNS+settleNS && int64(r.EndNS) < s.DetachedNS
				if in && c.said[key][i] == unsaid && c.windowOf(key, r.Packet) == nil {
					c.Outside++
				}
			}
		}
	}
}

// Summary checks the tool's own figures against the rows and the truth.
func (c *Comparison) Summary(run Run, tr *Trace) {
	s := run.Summary.Coverage
	var dispatches, after, unexplained int64
	for _, cov := range tr.Coverage {
		dispatches += cov.Dispatches
		after += cov.After
		unexplained += cov.Unexplained
	}
	reasons, rows := map[string]int64{}, map[string]int64{}
	for _, u := range s.Untimed {
		reasons[u.Reason] = u.Packets
	}
	for _, u := range tr.Untimed {
		if u.Reason != "after-detach" {
			rows[u.Reason] += int64(u.Packets)
		}
	}
	if s.Dispatches != dispatches || s.Timed != int64(len(tr.Dispatches)) || s.AfterDetach != after ||
		s.Unexplained-s.Surplus != unexplained || !maps.Equal(reasons, rows) {
		c.wrong("summary", "%+v; the rows say %d dispatches, %d timed, %d after the detach, untimed %v",
			s, dispatches, len(tr.Dispatches), after, rows)
	}
	var calls, totalNS, wantNS int64
	for _, k := range run.Summary.Kernels {
		calls += k.Calls
		totalNS += k.TotalNS
	}
	for _, d := range tr.Dispatches {
		wantNS += d.EndNS - d.StartNS
	}
	if all := int64(len(run.Summary.Kernels)) == run.Summary.KernelsInAll; all && (calls != s.Timed || totalNS != wantNS) {
		c.wrong("summary", "kernels: %d calls, %d ns; the rows say %d, %d ns", calls, totalNS, s.Timed, wantNS)
	}
	// The payload's counters are a third witness.
	if n := tr.Counters["timed_pool"] + tr.Counters["timed_app"]; n != s.Timed && len(tr.Losses) == 0 {
		c.wrong("summary", "the payload counts %d timed, the trace has %d", n, s.Timed)
	}
	if n := tr.Counters["dispatches"]; n != dispatches {
		c.wrong("summary", "the payload counts %d dispatches, its windows %d", n, dispatches)
	}
}

// Finish checks what needs all traces, and says the figures.
func (c *Comparison) Finish(threads map[int64]bool) {
	c.t.Helper()
	owner := map[int64]uint64{}
	for _, producer := range slices.Sorted(maps.Keys(c.tids)) {
		tids := c.tids[producer]
		if c.Producers && len(tids) != 1 {
			c.wrong("tid", "the workload's thread %d is recorded as %v", producer, slices.Sorted(maps.Keys(tids)))
		}
		for tid := range tids {
			if other, taken := owner[tid]; taken && c.Producers {
				c.wrong("tid", "thread %d is recorded for the workload's threads %d and %d", tid, producer, other)
			}
			owner[tid] = producer
			if threads != nil && !threads[tid] {
				c.wrong("tid", "%d is no thread of the target", tid)
			}
		}
	}
	if n := int64(len(c.missing)); n != c.unexplained+c.lostAfter || n > c.Lost {
		c.wrong("missing", "%d dispatches, such as %v; the tool owns up to %d unexplained and %d records lost",
			n, append(c.missing, truth.Record{})[0], c.unexplained, c.Lost)
	}
	if c.Outside > 0 && c.rawClaims == 0 {
		c.wrong("outside", "%d kernels ran during the session in no window, and nothing counts them", c.Outside)
	}
	for kind, n := range c.nErrors {
		c.t.Errorf("%d wrong: %s", n, kind)
	}
	c.t.Logf("%d kernels executed, %d recorded; in closed windows %d, recorded %d (%.3f %%), application's signal %d, untimed %v, missing %d, lost %d, outside %d (%d raw claims), worst %d ns, earliest submit %d ns",
		c.log.Kernels, c.Dispatches, c.InWindows, c.Recorded, 100*float64(c.Recorded)/float64(max(c.InWindows, 1)), c.App, c.Untimed,
		len(c.missing), c.Lost, c.Outside, c.rawClaims, c.WorstNS, c.EarliestSubmitNS)
}

// MustHaveRecorded: a comparison of nothing proves nothing.
func (c *Comparison) MustHaveRecorded(least int) {
	c.t.Helper()
	if c.Dispatches < least {
		c.t.Errorf("only %d dispatches recorded, expected at least %d", c.Dispatches, least)
	}
}

// GPUs is the number of GPUs on which dispatches were recorded.
func (c *Comparison) GPUs() int {
	nodes := map[int]bool{}
	for key, said := range c.said {
		for i, what := range said {
			if what == timed {
				nodes[c.log.Queues[key][i].Node] = true
			}
		}
	}
	return len(nodes)
}
