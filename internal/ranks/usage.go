package ranks

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Use is what a GPU does at a time.
type Use int

// The uses. Where several apply, the first one counts: a GPU that computes while a collective waits loses nothing.
const (
	Compute   Use = iota // a kernel runs that is no collective
	Transfer             // a collective runs, and all ranks have entered
	Wait                 // a collective runs, and waits for another rank
	Unmatched            // a collective runs that was not matched
	Copy                 // a copy runs, and no kernel
	Uses                 // how many there are
)

// OtherCollectives is in the place of a kernel's number.
const OtherCollectives = math.MinInt32

// Usage divides the time of one GPU by its uses. The caller passes its kernels in the order of their starts.
type Usage struct {
	NS        [Uses]int64
	WaitedFor map[int32]int64     // ns of Wait by the rank that was last; -1: no single rank was
	Instead   map[int32]int64     // ns of Compute while its rank was last and all others waited, by the caller's number of the kernel, or OtherCollectives
	LateNS    int64               // how long its rank was last and all others waited, in the declared time
	IdleLate  map[IdleCause]int64 // ns of that in which it was idle, by the cause that the caller adds (see Idle)

	analysis *Analysis
	declared []traceread.Span
	copies   []traceread.Span
	late     []traceread.Span // disjoint
	idleLate []traceread.Span // the same, for Idle
	own      []laneKernel     // kernels of collectives in the order of starts
	entered  []int64          // the ends of those that start at enterNS, and that the caller has not passed yet
	enterNS  int64
	waiting  parts // that begin later
	untilNS  [Copy]int64
	computes int32 // the kernel that computes longest
	waitsFor int32
	atNS     int64
}

// part is a part of a collective's kernel.
type part struct {
	traceread.Span
	use      Use
	waitsFor int32
}

// parts is a heap by begin.
type parts []part

func (p parts) Len() int           { return len(p) }
func (p parts) Less(i, j int) bool { return p[i].BeginNS < p[j].BeginNS }
func (p parts) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *parts) Push(x any)        { *p = append(*p, x.(part)) }
func (p *parts) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}

// Usage returns the usage of a GPU. Only the declared times count; copies are times in which a copy ran. Both are disjoint
// and ascend.
func (a *Analysis) Usage(gpu int64, declared, copies []traceread.Span) *Usage {
	u := &Usage{
		WaitedFor: map[int32]int64{}, Instead: map[int32]int64{}, IdleLate: map[IdleCause]int64{},
		analysis: a, declared: declared, copies: copies, late: a.lateOf(gpu),
	}
	u.idleLate = u.late
	u.own = a.kernelsOf(func(rank int) bool { return a.Ranks[rank].GPU == gpu })
	return u
}

// lateOf returns the times in which all other ranks of a group waited for the rank on a GPU.
func (a *Analysis) lateOf(gpu int64) (spans []traceread.Span) {
	for i := range a.Collectives {
		if c := &a.Collectives[i]; a.Called(c) && a.Ranks[c.Last].GPU == gpu {
			spans = append(spans, traceread.Span{BeginNS: c.PrevNS, EndNS: c.LastNS})
		}
	}
	slices.SortFunc(spans, func(x, y traceread.Span) int { return cmp.Compare(x.BeginNS, y.BeginNS) })
	merged := spans[:0]
	for _, s := range spans {
		if n := len(merged); n > 0 && s.BeginNS <= merged[n-1].EndNS {
			merged[n-1].EndNS = max(merged[n-1].EndNS, s.EndNS)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// Kernel takes the next kernel. number is the caller's; kernels of collectives are only taken for the order, and those
// that are not compared as unmatched.
func (u *Usage) Kernel(startNS, endNS int64, number int32, collective bool) {
	u.enterUntil(startNS)
	if collective && u.isCompared(endNS) {
		return
	}
	u.advance(startNS)
	use := Compute
	if collective {
		use = Unmatched
	}
	if use == Compute && endNS > u.untilNS[use] {
		u.computes = number
	}
	u.untilNS[use] = max(u.untilNS[use], endNS)
}

// isCompared reports whether a kernel of a collective that starts now is in a lane.
func (u *Usage) isCompared(endNS int64) bool {
	at := slices.Index(u.entered, endNS)
	if at < 0 {
		return false
	}
	u.entered = slices.Delete(u.entered, at, at+1)
	return true
}

// Finish ends the last kernels.
func (u *Usage) Finish() {
	u.enterUntil(traceread.LatestNS)
	u.advance(traceread.LatestNS)
}

// enterUntil takes the collectives that start up to a time.
func (u *Usage) enterUntil(ns int64) {
	if ns > u.enterNS {
		u.entered, u.enterNS = u.entered[:0], ns
	}
	for len(u.own) > 0 && u.analysis.at(u.own[0]).StartNS <= ns {
		k := u.analysis.at(u.own[0])
		u.own = u.own[1:]
		if k.StartNS == ns {
			u.entered = append(u.entered, k.EndNS)
		}
		u.advance(k.StartNS)
		wait, transfer := u.analysis.parts(k)
		for _, p := range [...]part{wait, transfer} {
			if p.EndNS > p.BeginNS {
				heap.Push(&u.waiting, p)
			}
		}
	}
}

// parts divides a kernel of a collective into the time in which it waits and the rest.
func (a *Analysis) parts(k *Kernel) (wait, rest part) {
	rest = part{Span: traceread.Span{BeginNS: k.StartNS, EndNS: k.EndNS}, use: Unmatched}
	if k.Collective < 0 || !a.Collectives[k.Collective].Whole {
		return wait, rest
	}
	c := &a.Collectives[k.Collective]
	rest.use = Transfer
	if c.SkewNS() <= a.ClockNS {
		return wait, rest
	}
	wait = part{Span: traceread.Span{BeginNS: k.StartNS, EndNS: min(k.EndNS, c.LastNS)}, use: Wait, waitsFor: -1}
	if a.Called(c) {
		wait.waitsFor = c.Last
	}
	rest.BeginNS = wait.EndNS
	return wait, rest
}

// advance divides the time up to untilNS, in which no further kernel starts.
func (u *Usage) advance(untilNS int64) {
	for u.atNS < untilNS {
		for len(u.waiting) > 0 && u.waiting[0].BeginNS <= u.atNS {
			p := heap.Pop(&u.waiting).(part)
			if p.use == Wait && p.EndNS > u.untilNS[Wait] {
				u.waitsFor = p.waitsFor
			}
			u.untilNS[p.use] = max(u.untilNS[p.use], p.EndNS)
		}
		nextNS := untilNS
		if len(u.waiting) > 0 {
			nextNS = min(nextNS, u.waiting[0].BeginNS)
		}
		use := Compute
		for use < Copy && u.untilNS[use] <= u.atNS {
			use++
		}
		if use < Copy {
			nextNS = min(nextNS, u.untilNS[use])
		}
		u.count(use, traceread.Span{BeginNS: u.atNS, EndNS: nextNS})
		u.atNS = nextNS
	}
}

// count adds a time with one use; Copy: no kernel runs.
func (u *Usage) count(use Use, s traceread.Span) {
	u.declared = after(u.declared, s.BeginNS)
	ns := within(u.declared, s)
	if use == Copy {
		u.copies = after(u.copies, s.BeginNS)
		for _, c := range u.copies {
			if c.BeginNS >= s.EndNS {
				break
			}
			u.NS[Copy] += within(u.declared, c.Clip(s))
		}
	} else {
		u.NS[use] += ns
	}
	if use == Wait {
		u.WaitedFor[u.waitsFor] += ns
	}
	for _, l := range u.lateIn(s) {
		ns := within(u.declared, l)
		u.LateNS += ns
		switch use {
		case Compute:
			u.Instead[u.computes] += ns
		case Copy:
		default:
			u.Instead[OtherCollectives] += ns
		}
	}
}

// lateIn returns the parts of a time in which the GPU's rank was late. The caller's times ascend.
func (u *Usage) lateIn(s traceread.Span) []traceread.Span {
	u.late = after(u.late, s.BeginNS)
	return clipped(u.late, s)
}

// Idle calls visit for each part of an idle time in which the GPU's rank was late. The caller's times ascend.
func (u *Usage) Idle(s traceread.Span, visit func(late traceread.Span)) {
	u.idleLate = after(u.idleLate, s.BeginNS)
	for _, one := range clipped(u.idleLate, s) {
		visit(one)
	}
}

// clipped returns the parts of a time that are in some times.
func clipped(spans []traceread.Span, s traceread.Span) (parts []traceread.Span) {
	for _, one := range spans {
		if one.BeginNS >= s.EndNS {
			break
		}
		parts = append(parts, one.Clip(s))
	}
	return parts
}

// after drops the times that end up to ns.
func after(spans []traceread.Span, ns int64) []traceread.Span {
	for len(spans) > 0 && spans[0].EndNS <= ns {
		spans = spans[1:]
	}
	return spans
}

// within returns how much of a time is in some times, in ns.
func within(spans []traceread.Span, s traceread.Span) (ns int64) {
	for _, one := range spans {
		if one.BeginNS >= s.EndNS {
			break
		}
		ns += one.Within(s.BeginNS, s.EndNS)
	}
	return ns
}
