package steps

import "slices"

// Further sequences are searched in what the known ones leave of a sample.

// residual returns a sequence that recurs between those that are known. glued: it is a known one with what follows it
// each time at once.
func residual(sample []kernel, patterns [][]int64) (next []int64, glued bool) {
	pieces, rest := between(sample, patterns)
	limit := middleGap(sample) * longGapMultiple
	for _, g := range grouped(sample, pieces) {
		if len(*g) < leastSteps || g.kernels()*100 < len(sample) {
			continue
		}
		first := (*g)[0]
		behind, at := before(sample, patterns, first.start), symbols(sample, first)
		if gap := gapBefore(sample, behind); gap > limit && follows(sample, *g, behind, gap/2) && len(behind)+len(at) <= mostKernels {
			at = slices.Concat(behind, at)
			glued = true
		}
		if !slices.ContainsFunc(patterns, func(p []int64) bool { return slices.Equal(p, at) }) {
			return at, glued
		}
	}
	if len(rest)*residualPart < len(sample) {
		return nil, false
	}
	at := best(rest)
	if at == nil || len(at)*residualPart < middleLength(pieces) {
		return nil, false // it is a part of the steps
	}
	at = rotate(rest, at)
	if slices.ContainsFunc(patterns, func(p []int64) bool { return slices.Equal(p, at) }) {
		return nil, false
	}
	return at, false
}

// follows reports whether most pieces are behind a step of a kind, with a shorter gap between.
func follows(sample []kernel, pieces group, behind []int64, gapNS int64) bool {
	n := 0
	for _, p := range pieces {
		if sample[p.start].gapNS < gapNS && before(sample, [][]int64{behind}, p.start) != nil {
			n++
		}
	}
	return 2*n > len(pieces)
}

// residualPart is the least part of a sample that is searched again, and the least part of a piece that is a step.
const residualPart = 4

// middleLength returns the median of the lengths of pieces.
func middleLength(pieces []segment) int {
	lengths := make([]int, len(pieces))
	for i := range pieces {
		lengths[i] = pieces[i].length
	}
	slices.Sort(lengths)
	return lengths[len(lengths)/2]
}

// gapBefore returns the median of the times before the steps of a kind; nil: 0.
func gapBefore(sample []kernel, pattern []int64) int64 {
	if pattern == nil {
		return 0
	}
	var gaps []int64
	eachMatch(sample, pattern, func(i int) { gaps = append(gaps, sample[i].gapNS) })
	return median(gaps)
}

// median returns the median; of no values 0. It sorts them.
func median(values []int64) int64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// inSteps divides a piece that is one sequence several times, if that has parts of its own, or a long gap before it
// each time: several steps of a kind follow each other.
func inSteps(sample []kernel, piece segment, limit int64) (steps []segment) {
	all := symbols(sample, piece)
	n := period(all)
	for at := piece.start + n; at < piece.start+piece.length; at += n {
		if sample[at].gapNS <= limit && partOf(all[:n]).Times == 0 {
			return []segment{piece}
		}
	}
	for at := piece.start; at < piece.start+piece.length; at += n {
		steps = append(steps, segment{at, n})
	}
	return steps
}

// between returns the pieces of a sample that are not in the sequences, and their kernels.
func between(sample []kernel, patterns [][]int64) (pieces []segment, rest []kernel) {
	limit := middleGap(sample) * longGapMultiple
	m := newMatcher(patterns)
	m.append(sample)
	from := 0
	flush := func(until int) {
		if until > from {
			pieces = append(pieces, inSteps(sample, segment{from, until - from}, limit)...)
			rest = append(rest, sample[from:until]...)
		}
	}
	for i := 0; i < len(sample); {
		p := m.at(i)
		if p < 0 {
			i++
			continue
		}
		flush(i)
		i += len(patterns[p])
		from = i
	}
	flush(len(sample))
	return pieces, rest
}

// before returns the sequence that ends where a kernel is; nil: none.
func before(sample []kernel, patterns [][]int64, at int) []int64 {
	for _, p := range patterns {
		if at >= len(p) && slices.EqualFunc(p, sample[at-len(p):at], func(s int64, k kernel) bool { return s == k.symbol }) {
			return p
		}
	}
	return nil
}
