package steps

import "slices"

// Further sequences are searched in what the known ones leave of a sample.

// residual returns a sequence that recurs between those that are known. glued: it is a known one with what follows it
// each time at once.
func residual(sample []kernel, patterns [][]int64) (next []int64, glued bool) {
	pieces, rest := between(sample, patterns)
	limit := middleGap(sample) * longGapMultiple
	for _, g := range grouped(sample, pieces) {
		if g.n < leastSteps || g.n*g.first.length*100 < len(sample) {
			continue
		}
		behind, at := before(sample, patterns, g.first.start), symbols(sample, g.first)
		if gap := gapBefore(sample, behind); gap > limit && median(g.gaps)*2 < gap && len(behind)+len(at) <= mostKernels {
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
	m := newMatcher([][]int64{pattern})
	m.append(sample)
	var gaps []int64
	for i := 0; i < len(sample); {
		if m.at(i) < 0 {
			i++
			continue
		}
		gaps = append(gaps, sample[i].gapNS)
		i += len(pattern)
	}
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

// between returns the pieces of a sample that are not in the sequences, and their kernels.
func between(sample []kernel, patterns [][]int64) (pieces []segment, rest []kernel) {
	m := newMatcher(patterns)
	m.append(sample)
	from := 0
	flush := func(until int) {
		if until > from {
			pieces = append(pieces, segment{from, until - from})
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
