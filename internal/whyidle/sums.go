package whyidle

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// mostCauses limits the causes of one GPU; further ones count without a stack and a waker.
const mostCauses = 1 << 17

// sums are the causes of a GPU's idle time, or of one gap.
type sums struct {
	hostNS    int64
	exactNS   int64 // of it, in windows with scheduling
	sampledNS int64 // of it, in windows without

	leastWaitNS int64 // of the windows with scheduling, the longest
	byCause     map[Cause]*causeSums
	lanes       map[int64]*laneSums // by thread
	droppedNS   int64
}

type causeSums struct {
	ns, times int64
	doing     *doing // of the waker; nil: it is not known
}

func newSums() *sums { return &sums{byCause: map[Cause]*causeSums{}, lanes: map[int64]*laneSums{}} }

func (s *sweep) gpu(id int64) *sums {
	g := s.gpus[id]
	if g == nil {
		g = newSums()
		s.gpus[id] = g
	}
	return g
}

// observe counts the time of a question in a window.
func (g *sums) observe(w *Window, ns int64) {
	if w.Scheduling {
		g.exactNS, g.leastWaitNS = g.exactNS+ns, max(g.leastWaitNS, w.LeastWaitNS)
		return
	}
	g.sampledNS += ns
}

func (g *sums) put(c Cause, ns int64) *causeSums {
	one := g.byCause[c]
	if one == nil {
		if len(g.byCause) >= mostCauses {
			g.droppedNS += ns
			c.Stack, c.Waker = 0, Waker{}
		}
		if one = g.byCause[c]; one == nil {
			one = &causeSums{}
			g.byCause[c] = one
		}
	}
	one.ns += ns
	one.times++
	return one
}

// laneSums is the time in which a thread ran, and the samples that share it out.
type laneSums struct {
	runningNS   int64
	unsampledNS int64 // of it, in pieces without a sample
	preemptedNS int64 // it was preempted, with an unknown stack
	samples     map[stateStack]int64
	count       int64

	looseNS   int64 // in windows without scheduling, and with samples of running threads only
	loose     map[stateStack]int64
	sampledNS int64 // of looseNS, by the number of samples
}

type stateStack struct {
	state  State
	stack  int64
	kernel bool // it ran in the kernel
}

func (g *sums) lane(thread int64) *laneSums {
	l := g.lanes[thread]
	if l == nil {
		l = &laneSums{samples: map[stateStack]int64{}}
		g.lanes[thread] = l
	}
	return l
}

// isLoose reports whether samples do not tell how long a thread did not run.
func (w *Window) isLoose() bool { return !w.Scheduling && w.clock() == cputrace.CPUClock }

func (l *laneSums) ran(ns int64, sampled bool, w *Window) {
	if w.isLoose() {
		l.looseNS += ns
		return
	}
	l.runningNS += ns
	if !sampled {
		l.unsampledNS += ns
	}
}

func (l *laneSums) sample(key stateStack, w *Window) {
	if w.isLoose() {
		if l.loose == nil {
			l.loose = map[stateStack]int64{}
		}
		if _, known := l.loose[key]; !known && len(l.loose) >= mostCauses {
			key.stack = 0
		}
		ns := int64(1e9) / max(1, w.CPUHz)
		l.loose[key] += ns
		l.sampledNS += ns
		l.count++
		return
	}
	if _, known := l.samples[key]; !known && len(l.samples) >= mostCauses {
		key.stack = 0
	}
	l.samples[key]++
	l.count++
}

// share returns total * part / all, rounded down.
func share(total, part, all int64) int64 {
	if all <= 0 || total <= 0 || part <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(total), uint64(part))
	if high >= uint64(all) {
		return total
	}
	quotient, _ := bits.Div64(high, low, uint64(all))
	return int64(min(quotient, math.MaxInt64))
}

// shareOut divides a time by samples: the parts add up to it.
func shareOut(ns int64, of map[stateStack]int64, add func(stateStack, int64, int64)) {
	keys := make([]stateStack, 0, len(of))
	n := int64(0)
	for key, c := range of {
		keys = append(keys, key)
		n += c
	}
	slices.SortFunc(keys, func(a, b stateStack) int {
		return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a.state, b.state), cmp.Compare(a.stack, b.stack), compareFlags(a.kernel, b.kernel))
	})
	if n == 0 {
		if ns > 0 {
			add(stateStack{}, ns, 0)
		}
		return
	}
	passed, given := int64(0), int64(0)
	for _, key := range keys {
		passed += of[key]
		until := share(ns, passed, n)
		add(key, until-given, of[key])
		given = until
	}
}

// parts returns the parts of a lane that samples share out.
func (l *laneSums) parts(thread int64) (all []Part) {
	add := func(key stateStack, ns, samples int64) {
		if ns > 0 || samples > 0 {
			c := Cause{Thread: thread, State: key.state, Stack: key.stack, Syscall: tracedb.Null}
			all = append(all, Part{Cause: c, NS: ns, Samples: samples, Sampled: true, Kernel: key.kernel})
		}
	}
	shareOut(l.runningNS, l.samples, add)
	if l.preemptedNS > 0 {
		ready := map[stateStack]int64{}
		for key, n := range l.samples {
			ready[stateStack{state: Ready, stack: key.stack}] += n
		}
		shareOut(l.preemptedNS, ready, func(key stateStack, ns, _ int64) {
			key.state = Ready // also if there is no sample
			add(key, ns, 0)
		})
	}
	if sampled := min(l.sampledNS, l.looseNS); sampled > 0 {
		shareOut(sampled, l.loose, func(key stateStack, ns, _ int64) { add(key, ns, 0) })
	}
	if rest := l.looseNS - l.sampledNS; rest > 0 {
		add(stateStack{state: NotSampled}, rest, 0)
	}
	return all
}

// answer returns the sums as parts, the longest first.
func (g *sums) answer() *GPU {
	out := &GPU{HostNS: g.hostNS, DroppedNS: g.droppedNS, ExactNS: g.exactNS, LeastWaitNS: g.leastWaitNS, SampledNS: g.sampledNS}
	for c, one := range g.byCause {
		p := Part{Cause: c, NS: one.ns, Times: one.times}
		if one.doing != nil {
			p.Meanwhile = one.doing.meanwhile()
		}
		out.Parts = append(out.Parts, p)
	}
	for thread, l := range g.lanes {
		out.RunningNS += l.runningNS
		out.LooseNS += l.looseNS
		out.UnsampledNS += l.unsampledNS
		out.Samples += l.count
		out.Parts = append(out.Parts, l.parts(thread)...)
	}
	out.Parts = slices.DeleteFunc(out.Parts, func(p Part) bool { return p.NS <= 0 && p.Samples == 0 })
	sortParts(out.Parts)
	return out
}

func sortParts(all []Part) {
	slices.SortFunc(all, func(a, b Part) int {
		return cmp.Or(
			cmp.Compare(b.NS, a.NS), cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.State, b.State), cmp.Compare(a.Stack, b.Stack),
			cmp.Compare(a.Syscall, b.Syscall), cmp.Compare(a.Request, b.Request), cmp.Compare(a.Waker.Thread, b.Waker.Thread),
			cmp.Compare(a.Waker.PID, b.Waker.PID), cmp.Compare(a.Waker.TID, b.Waker.TID), compareFlags(a.GIL, b.GIL), compareFlags(a.Kernel, b.Kernel))
	})
}

// compareFlags puts false before true.
func compareFlags(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func sortMeanwhile(all []Meanwhile) {
	slices.SortFunc(all, func(a, b Meanwhile) int {
		return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(a.State, b.State), cmp.Compare(a.Stack, b.Stack))
	})
}

// gapSums are the causes of one gap.
type gapSums struct {
	GapSpan
	number int // in the caller's list
	sums   *sums
}

func sortGaps(all []gapSums) {
	slices.SortFunc(all, func(a, b gapSums) int {
		return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.BeginNS, b.BeginNS))
	})
}

// gapOf returns the gap of a question that is to be answered on its own; nil: it is not.
func (s *sweep) gapOf(q *Question) *gapSums {
	at := sort.Search(len(s.gaps), func(i int) bool {
		g := &s.gaps[i]
		return g.GPU > q.GPU || g.GPU == q.GPU && g.BeginNS > q.BeginNS
	}) - 1
	if at < 0 || s.gaps[at].GPU != q.GPU || q.EndNS > s.gaps[at].EndNS {
		return nil
	}
	return &s.gaps[at]
}

// answer ends all questions.
func (s *sweep) answer() (*Answer, error) {
	for thread := range s.unknown {
		s.unknown.end(s, thread, 0, stackEvent{})
	}
	for _, l := range s.lanes {
		l.end(func(*openQuestion) bool { return true })
	}
	a := &Answer{GPUs: map[int64]*GPU{}, Gaps: make([]Gap, len(s.gaps))}
	for id, g := range s.gpus {
		a.GPUs[id] = g.answer()
	}
	for i := range s.gaps {
		g := &s.gaps[i]
		a.Gaps[g.number] = Gap{GPU: g.GPU, Parts: g.sums.answer().Parts}
	}
	return a, nil
}
