package harness

import (
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/rtl-attach/rtl-attach/test/simlog"
)

// stampToleranceNS: submits are read from the time-stamp counter, openings of
// windows from the clock.
const stampToleranceNS = 1000

// toleranceNS: the simulator writes ticks of 10 ns, the runtime's conversion
// into its clock adds a few more. 10 is the worst that was ever seen.
const toleranceNS = 40

func (c *Comparison) dispatch(tr *Trace, d *Dispatch) {
	q, launch := tr.Queues[d.Queue], tr.Launches[d.Launch]
	records := c.log.Queues[q.Key]
	i := at(records, d.Index)
	if i < 0 || records[i].Kind != simlog.Kernel {
		c.wrong("unknown", "queue %+v packet %d is recorded, but no such kernel was executed", q.Key, d.Index)
		return
	}
	r := records[i]
	c.say(q.Key, i, timed)
	start, end := d.StartNS-int64(r.StartNS), d.EndNS-int64(r.EndNS)
	c.WorstNS = max(c.WorstNS, start, -start, end, -end)
	if max(start, -start, end, -end) > toleranceNS {
		c.wrong("times", "start %+d ns, end %+d ns (flags %d): %v", start, end, d.Flags, r)
	}
	if strings.TrimSuffix(launch.Symbol, ".kd") != r.Name || launch.Object != r.Object ||
		launch.Name != c.readable(r.Name) {
		c.wrong("kernel", "%q, %q object %#x: %v object %#x", launch.Symbol, launch.Name, launch.Object, r, r.Object)
	}
	if launch.Grid != r.Grid {
		c.wrong("grid", "%v: %v, executed with %v", launch.Grid, r, r.Grid)
	}
	if r.Flags&simlog.Extended != 0 {
		c.Extended++
	}
	if q.GPU != int64(r.Node) || launch.GPU != int64(r.Node) {
		c.wrong("agent", "queue on GPU %d, code of GPU %d: %v", q.GPU, launch.GPU, r)
	}
	if d.AppSignal {
		c.App++
	}
	c.submit(q.Key, d, r)
}

// readable demangles each name once.
func (c *Comparison) readable(symbol string) string {
	name, known := c.names[symbol]
	if !known {
		name = demangle.Filter(symbol, demangle.NoClones)
		c.names[symbol] = name
	}
	return name
}

func (c *Comparison) submit(key Key, d *Dispatch, r *simlog.Record) {
	c.within(key, r, d.SubmitKnown, d.StartNS-d.QueuedNS)
	if unknown := d.Flags&4 != 0; unknown == d.SubmitKnown {
		c.wrong("submit", "known %v, but flags %d: %v", d.SubmitKnown, d.Flags, r)
	}
	if !d.SubmitKnown {
		return
	}
	if d.QueuedNS < 0 {
		c.wrong("submit", "%d ns after the start: %v", -d.QueuedNS, r)
	}
	if d.TID == 0 {
		c.wrong("tid", "the submit is known and its thread is not: %v", r)
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

// within checks that a packet belongs to a window and was submitted in it.
func (c *Comparison) within(key Key, r *simlog.Record, known bool, submitNS int64) {
	w := c.windowOf(key, r.Packet)
	if w == nil {
		if !c.Killed {
			c.wrong("window", "recorded outside of every window: %v", r)
		}
		return
	}
	if !known {
		return
	}
	c.EarliestSubmitNS = min(c.EarliestSubmitNS, submitNS-w.OpenedNS)
	if submitNS < w.OpenedNS-stampToleranceNS || submitNS > w.ClosedNS+stampToleranceNS {
		c.wrong("submit", "%d ns after its window was opened, %d ns before it was closed: %v",
			submitNS-w.OpenedNS, w.ClosedNS-submitNS, r)
	}
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
		case i < 0 || records[i].Kind != simlog.Kernel:
			c.wrong("unknown", "queue %+v packet %d is untimed (%s), but no such kernel was executed", key, index, u.Reason)
			continue
		default:
			c.say(key, i, untimed)
			c.within(key, records[i], u.SubmitNS != 0 && index == u.Index, u.SubmitNS)
		}
		c.Untimed[u.Reason]++
	}
}
