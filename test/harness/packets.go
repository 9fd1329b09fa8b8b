package harness

import (
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/truth"
)

// stampToleranceNS: submits are read from the time-stamp counter, openings of
// windows from the clock.
const stampToleranceNS = 1000

// toleranceNS: the simulator writes ticks of 10 ns, the runtime's conversion
// into its clock adds a few more.
const toleranceNS = 50

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
