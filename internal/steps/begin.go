package steps

import "slices"

// rotate lets a step begin at the kernel before which there is most time between submits: of the first kernels of launches
// of graphs, if it has some, or else of the kernels with which runs of such steps can begin. A gap counts as a long
// one at most: a thread that once waited for a processor does not move the begin.
func rotate(sample []kernel, pattern []int64) []int64 {
	most := middleGap(sample) * longestGapMultiple
	before := make([]int64, len(pattern)) // the sum of the times, by place in the step
	eachMatch(sample, pattern, func(i int) {
		for place := range pattern {
			before[place] += min(sample[i+place].gapNS, most)
		}
	})
	possible := begins(sample, pattern)
	if slices.ContainsFunc(pattern, func(s int64) bool { return s&graphStart != 0 }) {
		for place, s := range pattern {
			possible[place] = s&graphStart != 0
		}
	}
	first := slices.Index(possible, true)
	for place, ns := range before {
		if possible[place] && ns > before[first] {
			first = place
		}
	}
	return append(slices.Clone(pattern[first:]), pattern[:first]...)
}

// begins reports at which places of a step most runs of such steps can begin so that no run has fewer whole steps. If
// there are too few runs, or they differ, all places are possible.
func begins(sample []kernel, pattern []int64) (possible []bool) {
	n, runs := len(pattern), 0
	votes := make([]int, n)
	eachRun(sample, pattern, func(from, until, place int) {
		if from == 0 || until == len(sample) {
			return // it is cut
		}
		runs++
		for i := range (until-from)%n + 1 {
			votes[(place+i)%n]++
		}
	})
	most := slices.Max(votes)
	possible = make([]bool, n)
	for place, v := range votes {
		possible[place] = most < leastSteps || 2*most < runs || 4*v >= 3*most
	}
	return possible
}

// eachRun visits the runs of a step's kernels in its order: where they begin and end in the sample, and at which place of the step.
func eachRun(sample []kernel, pattern []int64, visit func(from, until, place int)) {
	n, from, until := len(pattern), 0, 0
	end := func() {
		if until == from {
			return
		}
		before, behind := 0, 0
		for before < n && before < from && sample[from-1-before].symbol == pattern[n-1-before] {
			before++
		}
		for behind < n && until+behind < len(sample) && sample[until+behind].symbol == pattern[behind] {
			behind++
		}
		visit(from-before, until+behind, (n-before)%n)
	}
	eachMatch(sample, pattern, func(i int) {
		if i != until {
			end()
			from = i
		}
		until = i + n
	})
	end()
}
