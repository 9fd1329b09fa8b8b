package steps

import (
	"cmp"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/histogram"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Kind is the steps of a thread with one sequence of kernels.
type Kind struct {
	First     int64 // row of the name of its first kernel
	Kernels   int64 // of a step; 0: the steps have various kernels
	Part      Part
	Steps     int64
	P50NS     int64 // from the first start to the last end of its kernels
	P99NS     int64
	MaxNS     int64
	TotalNS   int64
	IdleP50NS int64 // of a step: none of its kernels ran
	IdleNS    int64
	GapP50NS  int64 // from the end of the thread's last step to the start of a step of this kind
	Different int64 // steps with missing or additional kernels
	Slow      int64 // steps that took longer than slowPercent of P50NS
	Outliers  []Outlier
}

const (
	slowPercent   = 150
	mostSlow      = 5       // held of a kind
	mostDifferent = 3       // held of a kind that are not slow
	mostHeld      = 1 << 20 // kernels of the steps held of a thread
)

// kinds adds up the steps of a thread.
type kinds struct {
	f      *finder
	list   []*kind
	byHash map[uint64]int // in ranges of markers
	lastNS int64          // the end of the last step
	held   int
	m      measured
	view   []Kernel
}

// kind adds up the steps of one kind.
type kind struct {
	Kind
	pattern                    []int64 // nil: various
	durationNS, idleNS         []int64 // sums of the steps that do not differ, by place
	equal                      int64   // their number
	durations, idleTimes, gaps histogram.Histogram
	slow, different            []held
}

// held is a step that is held to compare it with the others.
type held struct {
	Outlier
	kernels []kernel // nil: there was no room
	idleNS  []int64
	edits   []edit
}

func newKinds(f *finder, patterns [][]int64) *kinds {
	ks := &kinds{f: f}
	for _, p := range patterns {
		ks.new(p)
	}
	return ks
}

func (ks *kinds) new(pattern []int64) int {
	k := &kind{pattern: pattern}
	k.Kernels, k.durationNS, k.idleNS = int64(len(pattern)), make([]int64, len(pattern)), make([]int64, len(pattern))
	if len(pattern) > 0 {
		k.First, k.Part = nameOf(pattern[0]), partOf(pattern)
	}
	ks.list = append(ks.list, k)
	return len(ks.list) - 1
}

func nameOf(symbol int64) int64 { return symbol &^ graphStart }

func (ks *kinds) patterns() (all [][]int64) {
	for _, k := range ks.list {
		all = append(all, k.pattern)
	}
	return all
}

// classify adds a step whose kernels are known, of any kind: the last kind has the steps that are unlike all others.
func (ks *kinds) classify(step []kernel) error {
	pattern, h := make([]int64, len(step)), uint64(0)
	for i := range step {
		pattern[i] = step[i].symbol
		h = h*base + spread(pattern[i])
	}
	if ks.byHash == nil {
		ks.byHash = map[uint64]int{}
	}
	if n, known := ks.byHash[h]; known && slices.Equal(ks.list[n].pattern, pattern) {
		return ks.step(n, step, nil)
	}
	for n, k := range ks.list {
		if e := align(k.pattern, pattern); e.fits && e.length == len(pattern) {
			return ks.step(n, step, e)
		}
	}
	if len(ks.list) < mostKinds-1 {
		n := ks.new(pattern)
		ks.byHash[h] = n
		return ks.step(n, step, nil)
	}
	if len(ks.list) == mostKinds-1 {
		ks.new(nil)
	}
	return ks.step(mostKinds-1, step, nil)
}

// step adds a step.
func (ks *kinds) step(number int, step []kernel, e *edits) error {
	k, t := ks.list[number], &ks.f.t
	ks.m.measure(step)
	one := Step{Thread: t, Kind: &k.Kind, StartNS: ks.m.startNS, EndNS: ks.m.endNS, IdleNS: ks.m.idle, Differs: e != nil}
	length := one.EndNS - one.StartNS
	t.Steps++
	t.In += int64(len(step))
	one.Number = t.Steps
	k.Steps++
	k.TotalNS, k.IdleNS = traceread.Sum(k.TotalNS, length), traceread.Sum(k.IdleNS, one.IdleNS)
	k.durations.Add(length)
	k.idleTimes.Add(one.IdleNS)
	if t.Steps > 1 {
		k.gaps.Add(one.StartNS - ks.lastNS)
	}
	ks.lastNS = max(ks.lastNS, one.EndNS)
	if e != nil {
		k.Different++
	} else if k.pattern != nil {
		k.equal++
		for i := range step {
			k.durationNS[i] = traceread.Sum(k.durationNS[i], step[i].endNS-step[i].startNS)
			k.idleNS[i] = traceread.Sum(k.idleNS[i], ks.m.before[i])
		}
	}
	ks.hold(k, &one, step, e)
	if visit := ks.f.of.visit; visit != nil {
		ks.view = ks.view[:0]
		for i := range step {
			ks.view = append(ks.view, Kernel{nameOf(step[i].symbol), step[i].startNS, step[i].endNS})
		}
		one.Kernels = ks.view
		return visit(one)
	}
	return nil
}

// hold keeps the slowest steps, and the first that differ.
func (ks *kinds) hold(k *kind, one *Step, step []kernel, e *edits) {
	length := one.EndNS - one.StartNS
	list, at := &k.slow, 0
	for at < len(k.slow) && k.slow[at].DurationNS >= length {
		at++
	}
	most := mostSlow
	if at == mostSlow {
		if e == nil || len(k.different) == mostDifferent {
			return
		}
		list, at, most = &k.different, len(k.different), mostDifferent
	}
	h := held{Outlier: Outlier{Number: one.Number, StartNS: one.StartNS, DurationNS: length, IdleNS: one.IdleNS}}
	if len(*list) == most {
		last := &(*list)[most-1]
		ks.held -= len(last.kernels)
		h.kernels, h.idleNS = last.kernels[:0], last.idleNS[:0]
		*list = (*list)[:most-1]
	}
	if ks.held += len(step); ks.held <= mostHeld && k.pattern != nil {
		h.kernels, h.idleNS = append(h.kernels, step...), append(h.idleNS, ks.m.before...)
	} else {
		ks.held -= len(step)
		h.kernels = nil
	}
	if e != nil {
		h.edits = slices.Clone(e.list)
	}
	*list = slices.Insert(*list, at, h)
}

// results returns the kinds with steps, the one with most kernels first.
func (ks *kinds) results() (all []Kind) {
	for _, k := range ks.list {
		if k.Steps == 0 {
			continue
		}
		k.P50NS, k.P99NS, k.MaxNS = k.durations.Quantile(500), k.durations.Quantile(990), k.durations.Max()
		k.IdleP50NS, k.GapP50NS = k.idleTimes.Quantile(500), k.gaps.Quantile(500)
		slowNS := k.P50NS + k.P50NS/100*(slowPercent-100)
		k.Slow = k.durations.Above(slowNS)
		k.outliers(slowNS)
		all = append(all, k.Kind)
	}
	slices.SortStableFunc(all, func(a, b Kind) int { return cmp.Compare(b.Steps*max(1, b.Kernels), a.Steps*max(1, a.Kernels)) })
	return all
}

// measured is what kernels of a step take together.
type measured struct {
	startNS, endNS, idle int64
	before               []int64 // by kernel: how long none ran before it
	order                []int
}

func (m *measured) measure(step []kernel) {
	m.startNS, m.endNS, m.idle = step[0].startNS, step[0].endNS, 0
	m.before = append(m.before[:0], make([]int64, len(step))...)
	if slices.IsSortedFunc(step, byStart) {
		for i := range step {
			m.add(&step[i], i)
		}
		return
	}
	m.order = m.order[:0]
	for i := range step {
		m.order = append(m.order, i)
	}
	slices.SortStableFunc(m.order, func(a, b int) int { return byStart(step[a], step[b]) })
	m.startNS, m.endNS = step[m.order[0]].startNS, step[m.order[0]].endNS
	for _, i := range m.order {
		m.add(&step[i], i)
	}
}

func byStart(a, b kernel) int { return cmp.Compare(a.startNS, b.startNS) }

func (m *measured) add(k *kernel, i int) {
	if gap := k.startNS - m.endNS; gap > 0 {
		m.before[i] = gap
		m.idle += gap
	}
	m.endNS = max(m.endNS, k.endNS)
}
