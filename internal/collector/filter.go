package collector

import (
	"cmp"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// filtering applies a filter to the dispatches of one session. It decides once for each
// kernel name and each queue. The sink gets the times in which filtered kernels ran, and how
// many they were. A nil filtering keeps all dispatches.
type filtering struct {
	*filter.Filter
	begin   func() uint64 // of the declared window; 0: it has not begun
	beginNS uint64        // what begin returned

	launches []int32          // by launch id: an index of names, +1; 0: not defined
	byText   map[string]int32 // indexes of names by symbol
	byName   map[string]int32 // by readable name: the symbols with one name are one kernel
	readable tracedb.ReadableNames
	names    []filteredName

	gpus   map[uint32]bool // agents: whether their kernels are kept
	queues map[uint32]*filteredQueue
	held   []tracedb.Dispatch // whose number among the dispatches of their kernel is not known yet
	last   uint64             // the highest number that the filter keeps
	ready  []tracedb.Filtered
	left   []int32 // names with kernels that are not written yet
}

// filteredName is a kernel name.
type filteredName struct {
	symbol  string
	has     bool   // the filter keeps it
	counted int32  // the name whose iterations it counts
	n       uint64 // dispatches since the window's begin
	kernels uint64 // left out, not written yet
	totalNS uint64
}

// filteredQueue is a queue with the time in which its last filtered kernels ran.
type filteredQueue struct {
	has  bool // the filter keeps its GPU
	open tracedb.Filtered
}

// Filter makes the collector leave out what f does not select. begin returns the begin of
// the declared window, in ns of CLOCK_BOOTTIME; 0 means that it has not begun. Call Filter
// before Run. With a schedule each window begins at its arming.
func (c *Collector) Filter(f *filter.Filter, begin func() uint64) {
	if !f.OfKernels() {
		return
	}
	if c.periods != nil {
		c.periods.filter = f
	}
	c.filter = &filtering{
		Filter: f, begin: begin, byText: map[string]int32{"": 0}, byName: map[string]int32{},
		last:  lastIteration(f),
		names: []filteredName{{has: true}}, gpus: map[uint32]bool{}, queues: map[uint32]*filteredQueue{},
	}
}

func lastIteration(f *filter.Filter) uint64 {
	if rs := f.Iterations(); len(rs) > 0 {
		return rs[len(rs)-1].Last
	}
	return 0
}

func (f *filtering) agent(a *ring.Agent) {
	if f != nil {
		f.gpus[a.ID] = f.HasGPU(int64(a.GPU), filter.PCIAddress(a.PCIDomain, a.BDF))
	}
}

// queue notes a queue, whose agent is defined by now: if not, its GPU is not known.
func (f *filtering) queue(q *ring.Queue) {
	if f == nil {
		return
	}
	has, known := f.gpus[q.Agent]
	if !known {
		has = f.HasGPU(-1, -1)
	}
	f.queues[q.ID] = &filteredQueue{has: has}
}

// launch decides on a kernel.
func (f *filtering) launch(id uint32, symbol string) {
	if f == nil {
		return
	}
	for int(id) >= len(f.launches) {
		f.launches = append(f.launches, make([]int32, max(64, int(id)+1-len(f.launches)))...)
	}
	f.launches[id] = f.name(symbol) + 1
}

// name returns the index of a kernel name.
func (f *filtering) name(symbol string) int32 {
	if at, known := f.byText[symbol]; known {
		return at
	}
	at := int32(len(f.names))
	f.byText[symbol] = at
	name := f.readable.Of(symbol)
	counted, known := f.byName[name]
	if !known {
		counted = at
		f.byName[name] = at
	}
	f.names = append(f.names, filteredName{symbol: symbol, has: f.HasName(name, symbol), counted: counted})
	return at
}

// nameOf returns the index of a launch's name; 0: not known.
func (f *filtering) nameOf(launch uint32) int32 {
	if int(launch) < len(f.launches) {
		return max(0, f.launches[launch]-1)
	}
	return 0
}

// mostHeld limits the dispatches that wait for their numbers. The ring must have been full for
// long; the older half of them then gets numbers by what has arrived.
const mostHeld = 1 << 20

// waits reports whether a dispatch has to wait for its number. The payload reports dispatches
// in any order, also those of one queue; they are numbered in the order of their ends.
func (f *filtering) waits(d *tracedb.Dispatch) bool {
	if !f.OfIterations() {
		return false
	}
	name := &f.names[f.nameOf(d.Launch)]
	if f.names[name.counted].n >= f.last || !f.isIn(d.StartNS) {
		return false
	}
	f.held = append(f.held, *d)
	return true
}

// has reports whether the filter keeps a dispatch, and numbers it.
func (f *filtering) has(d *tracedb.Dispatch) bool {
	name := &f.names[f.nameOf(d.Launch)]
	has := name.has
	if f.OfIterations() {
		n := uint64(0) // before the window
		if f.isIn(d.StartNS) {
			counted := &f.names[name.counted]
			counted.n++
			n = counted.n
		}
		has = has && f.HasIteration(n)
	}
	if q := f.queues[d.Queue]; q != nil && !q.has || q == nil && !f.HasGPU(-1, -1) {
		has = false
	}
	return has
}

// ended returns the dispatches that no longer have to wait, in the order of their ends: those
// that ended before a time up to which all have arrived.
func (f *filtering) ended(untilNS uint64) []tracedb.Dispatch {
	if f == nil || len(f.held) == 0 {
		return nil
	}
	slices.SortStableFunc(f.held, func(a, b tracedb.Dispatch) int { return cmp.Compare(a.EndNS, b.EndNS) })
	n, _ := slices.BinarySearchFunc(f.held, untilNS, func(d tracedb.Dispatch, ns uint64) int { return cmp.Compare(d.EndNS, ns) })
	if len(f.held)-n > mostHeld/2 {
		n = len(f.held) - mostHeld/2
	}
	ended := f.held[:n:n]
	f.held = slices.Clone(f.held[n:])
	return ended
}

// number numbers the dispatches that ended before a time up to which all have arrived.
func (c *Collector) number(untilNS uint64) error {
	for _, d := range c.filter.ended(untilNS) {
		if err := c.timed(&d); err != nil {
			return err
		}
	}
	return nil
}

// isIn reports whether a kernel started after the begin of the declared window.
func (f *filtering) isIn(startNS uint64) bool {
	if f.beginNS == 0 {
		f.beginNS = f.begin()
	}
	return f.beginNS != 0 && startNS >= f.beginNS
}

// leaveOut adds a dispatch to the filtered time of its queue.
func (c *Collector) leaveOut(a *account, d *tracedb.Dispatch) error {
	f := c.filter
	a.Filtered++
	c.tally.filtered++
	at := f.nameOf(d.Launch)
	name := &f.names[at]
	if name.kernels == 0 {
		f.left = append(f.left, at)
	}
	name.kernels++
	name.totalNS += d.EndNS - d.StartNS
	q := f.queues[d.Queue]
	if q == nil {
		q = &filteredQueue{has: f.HasGPU(-1, -1)}
		f.queues[d.Queue] = q
	}
	if q.open.Kernels > 0 && extend(&q.open, d) {
		return nil
	}
	if q.open.Kernels > 0 {
		f.ready = append(f.ready, q.open)
	}
	q.open = tracedb.Filtered{
		Queue: d.Queue, Index: d.Index, LastIndex: d.Index, StartNS: d.StartNS, EndNS: d.EndNS, SubmitNS: d.SubmitNS, Kernels: 1,
	}
	if len(f.ready) >= batchDispatches {
		return c.flushBatch()
	}
	return nil
}

// extend adds a dispatch to a time that it overlaps or touches; false: it does neither.
func extend(f *tracedb.Filtered, d *tracedb.Dispatch) bool {
	if d.StartNS > f.EndNS || d.EndNS < f.StartNS {
		return false
	}
	f.EndNS, f.LastIndex = max(f.EndNS, d.EndNS), max(f.LastIndex, d.Index)
	if d.StartNS < f.StartNS {
		f.StartNS, f.SubmitNS, f.Index = d.StartNS, d.SubmitNS, d.Index
	}
	f.Kernels++
	return true
}

// intervals returns all filtered times that are not written yet.
func (f *filtering) intervals() []tracedb.Filtered {
	if f == nil {
		return nil
	}
	from := len(f.ready)
	for _, q := range f.queues {
		if q.open.Kernels > 0 {
			f.ready = append(f.ready, q.open)
			q.open.Kernels = 0
		}
	}
	slices.SortFunc(f.ready[from:], func(a, b tracedb.Filtered) int { return cmp.Compare(a.Queue, b.Queue) })
	return f.ready
}

// counts returns how often filtered kernels ran since its last call.
func (f *filtering) counts() (all []tracedb.FilteredKernel) {
	if f == nil {
		return nil
	}
	for _, at := range f.left {
		name := &f.names[at]
		all = append(all, tracedb.FilteredKernel{Symbol: name.symbol, Kernels: name.kernels, TotalNS: name.totalNS})
		name.kernels, name.totalNS = 0, 0
	}
	f.left = f.left[:0]
	return all
}

// written drops the times that intervals has returned.
func (f *filtering) written() {
	if f != nil {
		f.ready = f.ready[:0]
	}
}
