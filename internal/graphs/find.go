package graphs

import (
	"cmp"
	"slices"
)

// find returns the launches of the batch that has most of a sample's kernels; nil: none has enough. Batches
// are separated by long gaps between submits, or have a kernel that occurs once in each.
func find(sample []kernel) []int64 {
	best, most := segments(sample, afterGaps(sample))
	for _, launch := range candidates(sample) {
		var starts []int
		for i := range sample {
			if sample[i].launch == launch {
				starts = append(starts, i)
			}
		}
		s, kernels := around(sample, starts)
		if kernels > most || kernels == most && s.length < best.length {
			best, most = s, kernels
		}
	}
	if most*100 < len(sample)*leastPercent {
		return nil
	}
	pattern := make([]int64, best.length)
	for i := range pattern {
		pattern[i] = sample[best.start+i].launch
	}
	return rotate(sample, pattern)
}

// segment is the kernels from one separator to the next.
type segment struct{ start, length int }

// segments returns the first of the segments that occurs with most kernels, and their number; 0: none occurs
// often enough. starts has the segments' first kernels.
func segments(sample []kernel, starts []int) (best segment, most int) {
	type group struct {
		first segment
		n     int
	}
	groups := map[uint64]*group{}
	for i := 0; i+1 < len(starts); i++ { // the last one may be cut
		s := segment{starts[i], starts[i+1] - starts[i]}
		if s.length < leastKernels || s.length > mostKernels {
			continue
		}
		hash := uint64(s.length)
		for _, k := range sample[s.start : s.start+s.length] {
			hash = (hash ^ uint64(k.launch)) * 1099511628211 // FNV-1a's step
		}
		g := groups[hash]
		if g == nil {
			g = &group{first: s}
			groups[hash] = g
		}
		g.n++
	}
	for _, g := range groups {
		kernels := g.n * g.first.length
		if g.n >= leastBatches && (kernels > most || kernels == most && g.first.start < best.start) {
			best, most = g.first, kernels
		}
	}
	return best, most
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
	if len(places) < leastBatches || s.length < leastKernels || s.length > mostKernels {
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
	votes  map[int64]int // places by the next kernel's launch
}

// grow lets the sequences at some places, which have one kernel and more others, grow in a direction, by the launch
// that most of them have next. It returns the places and the number of new kernels with which the sequences
// have most kernels.
func (g *grower) grow(places []place, more, direction int) (best []place, kernels int) {
	best = places
	most := len(places) * (1 + more)
	for n := 1; n <= mostKernels && len(places) >= leastBatches; n++ {
		clear(g.votes)
		for _, p := range places {
			if p.room >= n {
				g.votes[g.sample[p.at+n*direction].launch]++
			}
		}
		launch, votes := int64(0), 0
		for l, v := range g.votes {
			if v > votes || v == votes && l < launch {
				launch, votes = l, v
			}
		}
		left := make([]place, 0, votes)
		for _, p := range places {
			if p.room >= n && g.sample[p.at+n*direction].launch == launch {
				left = append(left, p)
			}
		}
		places = left
		if all := len(places) * (1 + more + n); len(places) >= leastBatches && all >= most {
			best, kernels, most = places, n, all
		}
	}
	return best, kernels
}

// afterGaps returns the kernels that were submitted after a long gap.
func afterGaps(sample []kernel) (starts []int) {
	gaps := make([]int64, 0, len(sample))
	for i := 1; i < len(sample); i++ {
		gaps = append(gaps, sample[i].atNS-sample[i-1].atNS)
	}
	if len(gaps) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(gaps))
	long := sorted[len(sorted)/2] * longGapMultiple
	for i, gap := range gaps {
		if gap > long {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// candidates returns launches that may occur once in each batch: of each number of occurrences one, the
// numbers with most kernels first.
func candidates(sample []kernel) []int64 {
	count := map[int64]int{}
	for i := range sample {
		count[sample[i].launch]++
	}
	type class struct {
		launch int64 // the smallest
		times  int
		mass   int // kernels
	}
	classes := map[int]*class{}
	for launch, n := range count {
		if n < leastBatches || n > len(sample)/leastKernels {
			continue
		}
		c := classes[n]
		if c == nil {
			c = &class{launch, n, 0}
			classes[n] = c
		}
		c.launch = min(c.launch, launch)
		c.mass += n
	}
	sorted := make([]*class, 0, len(classes))
	for _, c := range classes {
		sorted = append(sorted, c)
	}
	slices.SortFunc(sorted, func(a, b *class) int { return cmp.Or(cmp.Compare(b.mass, a.mass), cmp.Compare(b.times, a.times)) })
	var launches []int64
	for _, c := range sorted[:min(len(sorted), mostCandidates)] {
		launches = append(launches, c.launch)
	}
	return launches
}

// rotate lets a batch begin at the kernel before which there is most time between submits.
func rotate(sample []kernel, pattern []int64) []int64 {
	border, at := borders(pattern), 0
	before := make([]int64, len(pattern)) // the sum of the times, by place in the batch
	for i := range sample {
		for at >= 0 && pattern[at] != sample[i].launch {
			at = border[at]
		}
		if at++; at < len(pattern) {
			continue
		}
		at = 0
		for place, first := 0, i+1-len(pattern); place < len(pattern); place++ {
			if k := first + place; k > 0 {
				before[place] += max(0, sample[k].atNS-sample[k-1].atNS)
			}
		}
	}
	first := 0
	for place, ns := range before {
		if ns > before[first] {
			first = place
		}
	}
	return append(slices.Clone(pattern[first:]), pattern[:first]...)
}
