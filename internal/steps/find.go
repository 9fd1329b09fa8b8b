package steps

import (
	"cmp"
	"slices"
)

// find returns the sequences of symbols that recur in a sample, the one with most kernels first; nil: they have too
// few of its kernels.
func find(sample []kernel) (patterns [][]int64) {
	if len(sample) < leastSteps*leastKernels {
		return nil
	}
	first := best(sample)
	if first == nil {
		return nil
	}
	patterns = append(patterns, rotate(sample, first))
	for len(patterns) < mostKinds {
		next, glued := residual(sample, patterns)
		if next == nil {
			break
		}
		if patterns = append(patterns, next); !glued && len(patterns) == 2 {
			// What is between steps of one kind may tell where they begin better than the times.
			patterns[0] = rotate(sample, patterns[0])
		}
	}
	return patterns
}

// best returns the sequence that is the step; nil: none has enough kernels.
//
// Of the sequences that recur without a look at the times, the shortest that has nearly as many kernels as any is taken,
// and then the next longer one in which it, or another part, is repeated. If that has no repeated part, and the
// times between submits separate longer sequences, one of these is the step. If it has one, it is the step, unless gaps
// divide it into equal steps (divide.go): a thread that waits has gaps inside its steps, too.
func best(sample []kernel) []int64 {
	unit, content := byContent(sample)
	gaps := byGaps(sample)
	if content == nil || partOf(content).Times == 0 {
		if len(gaps) > len(content) {
			return gaps
		}
		return byMarks(sample, content)
	}
	for _, shorter := range [][]int64{gaps, byMarks(sample, unit)} {
		if len(shorter) < len(content) && partOf(shorter).Times > 0 && divides(sample, shorter, content) {
			return shorter
		}
	}
	return content
}

// byMarks returns so many repetitions of a sequence as are most often between two long gaps: a thread that waits for a
// processor has gaps elsewhere, too.
func byMarks(sample []kernel, unit []int64) []int64 {
	if unit == nil {
		return nil
	}
	unit = rotate(sample, unit)
	m := newMatcher([][]int64{unit})
	m.append(sample)
	limit := middleGap(sample) * longGapMultiple
	count, all := map[int]int{}, 0
	units := -1 // since the last mark; -1: none is known
	for i := 0; i < len(sample); {
		if m.at(i) < 0 {
			units = -1
			i++
			continue
		}
		if sample[i].gapNS > limit {
			if units > 0 {
				count[units]++
				all++
			}
			units = 0
		}
		if units >= 0 {
			units++
		}
		i += len(unit)
	}
	times := 1
	for n, c := range count {
		if c > count[times] || c == count[times] && n < times {
			times = n
		}
	}
	if times == 1 || count[times] < leastSteps || count[times]*leastMarks < all || times*len(unit) > mostKernels {
		return unit
	}
	return slices.Repeat(unit, times)
}

// leastMarks is the least part of the distances between long gaps that are equal.
const leastMarks = 4

// candidate is a sequence of a sample, and how many of its kernels are in such sequences.
type candidate struct {
	segment
	kernels int
}

// nearlyAll is the share, in percent of the most kernels that a sequence has, that a shorter one must have.
const nearlyAll = 80

// byContent returns the shortest sequence, and that which is the step without a look at the times.
func byContent(sample []kernel) (unit, step []int64) {
	var all []candidate
	most := 0
	for _, symbol := range candidates(sample) {
		var starts []int
		for i := range sample {
			if sample[i].symbol == symbol {
				starts = append(starts, i)
			}
		}
		if s, kernels := around(sample, starts); kernels > 0 {
			all = append(all, candidate{s, kernels})
			most = max(most, kernels)
		}
	}
	if most*100 < len(sample)*leastPercent {
		return nil, nil
	}
	all = slices.DeleteFunc(all, func(c candidate) bool { return c.kernels*100 < most*nearlyAll })
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.length, b.length), cmp.Compare(b.kernels, a.kernels), cmp.Compare(a.start, b.start))
	})
	chosen := symbols(sample, all[0].segment)
	if partOf(chosen).Times > 0 {
		return chosen, chosen
	}
	for _, c := range all[1:] {
		if longer := symbols(sample, c.segment); partOf(longer).Times > 0 {
			return chosen, longer
		}
	}
	// No repeated part: of sequences of about one length the one with most kernels.
	longest := all[0]
	for _, c := range all[1:] {
		if c.length < 2*all[0].length && c.kernels > longest.kernels {
			longest = c
		}
	}
	return chosen, symbols(sample, longest.segment)
}

func symbols(sample []kernel, s segment) []int64 {
	all := make([]int64, s.length)
	for i := range all {
		all[i] = sample[s.start+i].symbol
	}
	return all
}

// byGaps returns the shortest sequence that long gaps separate and that has enough kernels.
func byGaps(sample []kernel) []int64 {
	for _, multiple := range []int64{longGapMultiple, longGapMultiple * 4, longestGapMultiple} {
		s, kernels := segments(sample, afterGaps(sample, multiple))
		if kernels > 0 && kernels*100 >= len(sample)*leastPercent {
			return symbols(sample, s)
		}
	}
	return nil
}

// segment is the kernels from one separator to the next.
type segment struct{ start, length int }

func (s segment) of(sample []kernel) []kernel { return sample[s.start : s.start+s.length] }

// group is equal segments.
type group []segment

func (g group) kernels() int { return len(g) * g[0].length }

// grouped groups segments by their symbols.
func grouped(sample []kernel, all []segment) []*group {
	groups := map[uint64]*group{}
	var list []*group
	for _, s := range all {
		if s.length < leastKernels || s.length > mostKernels {
			continue
		}
		h := uint64(s.length)
		for _, k := range s.of(sample) {
			h = (h ^ uint64(k.symbol)) * 1099511628211 // FNV-1a's step
		}
		g := groups[h]
		if g == nil {
			g = &group{}
			groups[h] = g
			list = append(list, g)
		}
		*g = append(*g, s)
	}
	slices.SortStableFunc(list, func(a, b *group) int { return cmp.Compare(b.kernels(), a.kernels()) })
	return list
}

// segments returns the first of the segments that occurs with most kernels, and their number; 0: none occurs
// often enough. starts has the segments' first kernels.
func segments(sample []kernel, starts []int) (segment, int) {
	var all []segment
	for i := 0; i+1 < len(starts); i++ { // the last one may be cut
		all = append(all, segment{starts[i], starts[i+1] - starts[i]})
	}
	for _, g := range grouped(sample, all) {
		if len(*g) >= leastSteps {
			return (*g)[0], g.kernels()
		}
	}
	return segment{}, 0
}

// around returns the sequence around a kernel that occurs with most kernels, and their number. Other kernels
// may be between two sequences.
func around(sample []kernel, at []int) (best segment, most int) {
	g := grower{sample: sample, votes: map[int64]int{}}
	after := func(i int) int { // how many kernels follow before the next one of at
		if i+1 < len(at) {
			return at[i+1] - at[i] - 1
		}
		return len(sample) - at[i] - 1
	}
	places := make([]place, len(at))
	for i := range at {
		places[i] = place{at[i], after(i)}
	}
	places, forward := g.grow(places, 0, 1)
	for i := range places { // what is between the last sequence and this kernel
		if places[i].room = places[i].at; i > 0 {
			places[i].room -= places[i-1].at + forward + 1
		}
	}
	places, backward := g.grow(places, forward, -1)
	s := segment{length: 1 + forward + backward}
	if len(places) < leastSteps || s.length < leastKernels || s.length > mostKernels {
		return best, 0
	}
	s.start = places[0].at - backward
	return s, len(places) * s.length
}

// place is a kernel in a sample, and how many kernels next to it can be of the same sequence.
type place struct{ at, room int }

// grower grows sequences.
type grower struct {
	sample []kernel
	votes  map[int64]int // places by the next kernel's symbol
}

// grow lets the sequences at some places, which have one kernel and more others, grow in a direction, by the symbol
// that most of them have next. It returns the places and the number of new kernels with which the sequences
// have most kernels.
func (g *grower) grow(places []place, more, direction int) (best []place, kernels int) {
	best = places
	most := len(places) * (1 + more)
	for n := 1; n <= mostKernels && len(places) >= leastSteps; n++ {
		clear(g.votes)
		for _, p := range places {
			if p.room >= n {
				g.votes[g.sample[p.at+n*direction].symbol]++
			}
		}
		symbol, votes := int64(0), 0
		for s, v := range g.votes {
			if v > votes || v == votes && s < symbol {
				symbol, votes = s, v
			}
		}
		left := make([]place, 0, votes)
		for _, p := range places {
			if p.room >= n && g.sample[p.at+n*direction].symbol == symbol {
				left = append(left, p)
			}
		}
		places = left
		if all := len(places) * (1 + more + n); len(places) >= leastSteps && all >= most {
			best, kernels, most = places, n, all
		}
	}
	return best, kernels
}

// afterGaps returns the kernels before which is a gap of so many times the one in the middle, or a launch of a graph.
func afterGaps(sample []kernel, multiple int64) (starts []int) {
	long := middleGap(sample) * multiple
	for i := range sample {
		if i > 0 && sample[i].gapNS > long || sample[i].symbol&graphStart != 0 {
			starts = append(starts, i)
		}
	}
	return starts
}

// middleGap returns the median of the times between submits.
func middleGap(sample []kernel) int64 {
	if len(sample) < 2 {
		return 0
	}
	gaps := make([]int64, 0, len(sample)-1)
	for i := range sample[1:] {
		gaps = append(gaps, sample[i+1].gapNS)
	}
	return median(gaps)
}

// candidates returns symbols that may occur once in each step: of each number of occurrences one, the
// numbers with most kernels first.
func candidates(sample []kernel) []int64 {
	count := map[int64]int{}
	for i := range sample {
		count[sample[i].symbol]++
	}
	type class struct {
		symbol int64 // the smallest
		times  int
		mass   int // kernels
	}
	classes := map[int]*class{}
	for symbol, n := range count {
		if n < leastSteps || n > len(sample)/leastKernels {
			continue
		}
		c := classes[n]
		if c == nil {
			c = &class{symbol, n, 0}
			classes[n] = c
		}
		c.symbol = min(c.symbol, symbol)
		c.mass += n
	}
	sorted := make([]*class, 0, len(classes))
	for _, c := range classes {
		sorted = append(sorted, c)
	}
	slices.SortFunc(sorted, func(a, b *class) int { return cmp.Or(cmp.Compare(b.mass, a.mass), cmp.Compare(b.times, a.times)) })
	var all []int64
	for _, c := range sorted[:min(len(sorted), mostCandidates)] {
		all = append(all, c.symbol)
	}
	return all
}
