package steps

import (
	"cmp"
	"maps"
	"slices"
)

// Part is a part of a step that is repeated in it, such as the layers of a model.
type Part struct {
	First   int // the first kernel's place in the step
	Kernels int // of one part
	Times   int // 0: no part is repeated
}

// The evidence for a repeated part, and a limit of the search for it.
const (
	leastPartKernels = 2
	leastParts       = 3
	leastPartPercent = 50 // of the step's kernels
	mostDistances    = 16
	mostNext         = 4 // occurrences of a symbol whose distances count
)

// partOf returns the repeated part of a sequence.
func partOf(sequence []int64) (best Part) {
	for _, n := range distances(sequence) {
		first, equal := 0, 0 // the longest run of symbols that equal the one n places later
		for i, from := 0, 0; i+n < len(sequence); i++ {
			if sequence[i] != sequence[i+n] {
				from = i + 1
			} else if i+1-from > equal {
				first, equal = from, i+1-from
			}
		}
		times := (equal + n) / n
		if times < leastParts || times*n*100 < len(sequence)*leastPartPercent {
			continue
		}
		if best.Times == 0 || n < best.Kernels {
			best = Part{first, n, times}
		}
	}
	return best
}

// distances returns the most frequent distances between equal symbols.
func distances(sequence []int64) []int {
	count, last := map[int]int{}, map[int64][]int{}
	for i, s := range sequence {
		seen := last[s]
		for _, at := range seen {
			if n := i - at; n >= leastPartKernels {
				count[n]++
			}
		}
		if len(seen) == mostNext {
			seen = append(seen[:0], seen[1:]...)
		}
		last[s] = append(seen, i)
	}
	all := slices.Collect(maps.Keys(count))
	slices.SortFunc(all, func(a, b int) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	return all[:min(len(all), mostDistances)]
}
