package harness

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/session"
	"github.com/rtl-attach/rtl-attach/test/simlog"
)

// What a trace says of a packet.
const (
	unsaid = iota
	timed
	untimed
	afterDetach
	filtered
)

// Comparison compares all traces of one process with the simulator's log.
type Comparison struct {
	faults
	log     *Log
	said    map[Key][]uint8 // parallel to log.Queues
	windows map[Key][]Window
	tids    map[uint64]map[int64]bool // by the workload's thread
	names   map[string]string         // by symbol, for people

	active      []Session        // in the order of time
	missing     []*simlog.Record // in a window, neither recorded nor explained
	unexplained int64            // the tool's own count of these
	lostAfter   int64            // lost slots that were only claimed in their window; lostKernels of them ran kernels
	lostKernels int64
	rawClaims   int64  // slots that the payload saw claimed raw, by its counter
	ring        int64  // of the largest queue recorded
	stray       string // about one kernel outside, for people

	Producers bool                     // the workload's threads live as long as the process: one tid each
	Excludes  func(symbol string) bool // what a filter leaves out; nil: not checked
	Killed    bool                     // the target or the recorder: windows stay open, accounts unsettled

	// Figures.
	Dispatches, InWindows, Recorded, Shared, App int
	Filtered                                     int // left out by filters
	Extended                                     int // recorded, of the vendor's packet
	Untimed                                      map[string]int
	Lost                                         int64
	Outside                                      int // claimed and executed while a session was active, in no window
	WorstNS                                      int64
	QueuedBefore                                 int64 // in front of a window that ran after it was opened
	EarliestSubmitNS                             int64 // after its window's opening; negative: before
}

// Compare begins a comparison. Call Add for each trace, then Finish.
func Compare(t Reporter, log *Log) *Comparison {
	c := &Comparison{
		faults: faults{t: t, n: map[string]int{}}, log: log, said: map[Key][]uint8{}, windows: map[Key][]Window{},
		tids: map[uint64]map[int64]bool{}, names: map[string]string{}, Untimed: map[string]int{}, Producers: true, EarliestSubmitNS: 1 << 62,
	}
	for key, records := range log.Queues {
		c.said[key] = make([]uint8, len(records))
	}
	return c
}

// Add compares one trace.
func (c *Comparison) Add(tr *Trace) {
	c.t.Helper()
	// A starved worker loses records, and counts them; everything else is an error.
	starved := []string{collector.CauseRingFull, collector.CauseUndelivered}
	for _, l := range tr.Losses {
		if l.Cause == session.CauseMissed {
			continue // in no window
		}
		c.Lost += l.Records
		if !slices.Contains(starved, l.Cause) && !(c.Killed && l.Cause == collector.CauseNoEnd) {
			c.wrong("loss", "%d records: %s", l.Records, l.Cause)
		}
	}
	c.Lost -= tr.LostCalls // which the comparisons of calls look at
	c.addWindows(tr)
	for i := range tr.Dispatches {
		c.dispatch(tr, &tr.Dispatches[i])
	}
	for _, u := range tr.Untimed {
		c.untimed(tr, u)
	}
	c.filtered(tr)
	for _, w := range tr.Windows {
		c.window(tr, w)
	}
	for _, q := range tr.Queues {
		c.ring = max(c.ring, q.Size)
	}
	c.sessions(tr)
	c.coverage(tr)
	c.Dispatches += len(tr.Dispatches)
	c.rawClaims += tr.Counters["raw_claims"]
}

func (c *Comparison) addWindows(tr *Trace) {
	for _, w := range tr.Windows {
		if !w.Closed || w.First == w.End {
			continue
		}
		key := tr.Queues[w.Queue].Key
		if had := c.windows[key]; len(had) > 0 && had[len(had)-1].End > w.First {
			c.wrong("overlap", "queue %+v: window %d..%d after %d..%d", key, w.First, w.End, had[len(had)-1].First, had[len(had)-1].End)
		}
		c.windows[key] = append(c.windows[key], w)
	}
}

// windowOf finds the window of a packet: those of a queue are in order.
func (c *Comparison) windowOf(key Key, index uint64) *Window {
	windows := c.windows[key]
	i, found := slices.BinarySearchFunc(windows, index, func(w Window, index uint64) int { return cmp.Compare(w.First, index) })
	if !found {
		i--
	}
	if i < 0 || index >= windows[i].End {
		return nil
	}
	return &windows[i]
}

const (
	settleNS      = 100e6 // until every queue in use has turned virtual, and until all are raw again
	claimMost     = 4     // slots that the workloads claim at once
	overclaimMost = 64    // slots that all producers together claim beyond the ring
)

// outside counts the packets that were claimed and ran during a session and belong to no window:
// on queues that were never seen, or never became virtual. A starved GPU may still run packets
// from before the attach: at most a ring full.
func (c *Comparison) outside() {
	for key, records := range c.log.Queues {
		var first uint64
		session := -1
		for i := range records {
			r := records[i]
			s := c.during(r)
			if s >= 0 && s != session {
				session, first = s, r.Packet
			}
			backlog := r.Packet < first+uint64(c.ring)+overclaimMost
			if s >= 0 && !backlog && r.Kind == simlog.Kernel && c.said[key][i] == unsaid && c.windowOf(key, r.Packet) == nil {
				if c.Outside++; c.Outside == 1 {
					c.stray = fmt.Sprintf("the first is %v in %+v; its queue's windows: %+v", r, c.active[s], c.windows[key])
				}
			}
		}
	}
}

// during returns the session in the middle of which r ran, or -1.
func (c *Comparison) during(r *simlog.Record) int {
	i, _ := slices.BinarySearchFunc(c.active, int64(r.StartNS), func(s Session, ns int64) int { return cmp.Compare(s.ArmedNS, ns) })
	if i--; i >= 0 && int64(r.StartNS) > c.active[i].firstOpenNS+settleNS && int64(r.EndNS)+settleNS < c.active[i].firstCloseNS {
		return i
	}
	return -1
}

// span finds when the first queue of a session had become virtual, and when the first queue that
// was not destroyed was raw again: a thread may be delayed between two queues.
func (c *Comparison) span(tr *Trace, s Session) Session {
	last := map[int64]Window{} // by queue
	opened := int64(math.MaxInt64)
	for _, w := range tr.Windows {
		if tr.Queues[w.Queue].Session != s.ID {
			continue
		}
		opened = min(opened, w.OpenedNS)
		if w.OpenedNS >= last[w.Queue].OpenedNS {
			last[w.Queue] = w
		}
	}
	s.firstOpenNS, s.firstCloseNS = s.ArmedNS, s.DetachedNS
	if len(last) > 0 {
		s.firstOpenNS = max(s.ArmedNS, opened)
	}
	for queue, w := range last {
		ran := c.log.Queues[tr.Queues[queue].Key]
		if w.Closed && len(ran) > 0 && ran[len(ran)-1].Packet >= w.End {
			s.firstCloseNS = min(s.firstCloseNS, w.ClosedNS)
		}
	}
	return s
}

// Finish makes the checks that need all traces, and logs the figures.
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
	c.outside()
	c.lost()
	if int64(c.Outside) > claimMost*c.rawClaims {
		c.wrong("outside", "%d kernels ran during the session in no window, %d claims were counted as raw; %s", c.Outside, c.rawClaims, c.stray)
	}
	c.count()
	c.t.Logf("%d kernels executed, %d recorded; in closed windows %d, recorded %d (%.3f %%), application's signal %d, untimed %v, missing %d, lost %d, outside %d (%d raw claims), queued before %d, worst %d ns, earliest submit %d ns",
		c.log.Kernels, c.Dispatches, c.InWindows, c.Recorded, 100*float64(c.Recorded)/float64(max(c.InWindows, 1)), c.App, c.Untimed,
		len(c.missing), c.Lost, c.Outside, c.rawClaims, c.QueuedBefore, c.WorstNS, c.EarliestSubmitNS)
}

// lost checks that exactly the dispatches are missing whose records the tool counts as lost. A
// record describes one dispatch, or a run of slots claimed in a window and published after it.
func (c *Comparison) lost() {
	if n := int64(len(c.missing)); n != c.unexplained+c.lostKernels || n > c.Lost+c.lostAfter {
		c.wrong("missing", "%d dispatches, such as %v; the tool owns up to %d unexplained and %d records lost",
			n, append(c.missing, &simlog.Record{})[0], c.unexplained, c.Lost)
	}
	runs := c.Lost - c.unexplained
	if !c.Killed && (runs < min(c.lostAfter, 1) || runs > c.lostAfter) {
		c.wrong("lost", "%d records, but %d dispatches and %d other slots are missing", c.Lost, c.unexplained, c.lostAfter)
	}
}

// MostRaw returns how many kernels the claims can have submitted that the session counts as raw: made on a
// queue that it did not know yet.
func (c *Comparison) MostRaw() int { return int(claimMost * c.rawClaims) }

// MustHaveRecorded fails if nothing was compared, which would prove nothing.
func (c *Comparison) MustHaveRecorded(least int) {
	c.t.Helper()
	if c.Dispatches < least {
		c.t.Errorf("only %d dispatches recorded, expected at least %d", c.Dispatches, least)
	}
}

// GPUs returns the number of GPUs with recorded dispatches.
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
