package harness

import (
	"database/sql"
	"strings"

	"github.com/rtl-attach/rtl-attach/test/simlog"
)

// Filtered is a time in which filtered kernels of a queue ran.
type Filtered struct {
	Queue          int64
	Index, Last    uint64
	StartNS, EndNS int64
	Kernels        int64
}

// LeftOut is how often a filtered kernel ran, by name.
type LeftOut struct{ Kernels, TotalNS int64 }

func (tr *Trace) readFiltered(db *sql.DB) error {
	tr.LeftOut = map[string]LeftOut{}
	err := each(db, "SELECT queue_id, packet_index, packets_after, start_ns, duration_ns, kernels FROM rtl_filtered", func(r *sql.Rows) error {
		var f Filtered
		var index, after, duration int64
		err := r.Scan(&f.Queue, &index, &after, &f.StartNS, &duration, &f.Kernels)
		f.Index, f.Last, f.EndNS = uint64(index), uint64(index+after), f.StartNS+duration
		tr.Filtered = append(tr.Filtered, f)
		return err
	})
	if err != nil {
		return err
	}
	return each(db, "SELECT n.string, sum(f.kernels), sum(f.total_ns) FROM rtl_filtered_kernel f JOIN rocpd_string n ON n.id = f.name_id GROUP BY n.id", func(r *sql.Rows) error {
		var name string
		var k LeftOut
		err := r.Scan(&name, &k.Kernels, &k.TotalNS)
		tr.LeftOut[name] = k
		return err
	})
}

// filtered checks that each filtered kernel was executed and is not in the trace, that its time
// is in rtl_filtered, and that nothing else is.
func (c *Comparison) filtered(tr *Trace) {
	kernels := map[int64]int64{} // by queue: in the trace, less those that were executed
	left := map[string]LeftOut{}
	for _, f := range tr.Filtered {
		kernels[f.Queue] += f.Kernels
		c.Filtered += int(f.Kernels)
		key := tr.Queues[f.Queue].Key
		records := c.log.Queues[key]
		var busyNS, reachedNS int64
		for packet := f.Index; packet <= f.Last; packet++ {
			i := at(records, packet)
			if i < 0 || records[i].Kind != simlog.Kernel || c.said[key][i] != unsaid {
				continue
			}
			r := records[i]
			if start, end := int64(r.StartNS), int64(r.EndNS); start >= f.StartNS-toleranceNS && end <= f.EndNS+toleranceNS {
				c.leftOut(key, i, left)
				kernels[f.Queue]--
				busyNS += max(0, end-max(start, reachedNS))
				reachedNS = max(reachedNS, end)
			}
		}
		if off := busyNS - (f.EndNS - f.StartNS); max(off, -off) > toleranceNS*(f.Kernels+1) {
			c.wrong("filtered", "%+v: its kernels ran for %d ns", f, busyNS)
		}
	}
	for queue, n := range kernels {
		if n != 0 {
			c.wrong("filtered", "queue %d: %d kernels too many are said to have run", queue, n)
		}
	}
	for name, k := range tr.LeftOut {
		was := left[name]
		if off := was.TotalNS - k.TotalNS; was.Kernels != k.Kernels || max(off, -off) > toleranceNS*k.Kernels {
			c.wrong("filtered", "%s: %+v, executed %+v", name, k, was)
		}
		delete(left, name)
	}
	for name, k := range left {
		c.wrong("filtered", "%s: no count, executed %+v", name, k)
	}
	if c.Excludes == nil {
		return
	}
	for i := range tr.Dispatches {
		if symbol := strings.TrimSuffix(tr.Launches[tr.Dispatches[i].Launch].Symbol, ".kd"); c.Excludes(symbol) {
			c.wrong("filtered", "%s is in the trace", symbol)
		}
	}
}

// leftOut notes that a kernel was left out.
func (c *Comparison) leftOut(key Key, i int, left map[string]LeftOut) {
	r := c.log.Queues[key][i]
	c.say(key, i, filtered)
	c.within(key, r, false, 0)
	if c.Excludes != nil && !c.Excludes(r.Name) {
		c.wrong("filtered", "%v was left out", r)
	}
	name := c.readable(r.Name)
	left[name] = LeftOut{left[name].Kernels + 1, left[name].TotalNS + int64(r.EndNS-r.StartNS)}
}

// filteredOf returns how many kernels of each queue were left out.
func (tr *Trace) filteredOf(queue int64) (n int64) {
	for _, f := range tr.Filtered {
		if f.Queue == queue {
			n += f.Kernels
		}
	}
	return n
}
