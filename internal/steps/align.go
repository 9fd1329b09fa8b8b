package steps

// edit is a difference between a step and its kind's sequence: kernels that are missing, or additional.
type edit struct {
	pattern, at       int // places in the sequence and in the step
	missing, addition int // numbers of kernels
}

// edits are all differences of a step.
type edits struct {
	list   []edit
	length int  // kernels of the step
	fits   bool // the step is similar to the sequence
	cost   int  // comparisons
}

// A step is of a kind if at most a quarter of its kernels differ, and the differences are not longer than mostShift.
const (
	mostShift  = 32
	sameKernel = 4 // equal kernels after a difference
)

func mostEdits(n int) int { return n / 4 }

// align compares symbols with a sequence from their begin to the sequence's end: after a difference it goes on
// where the next sameKernel kernels are equal again, with the shortest difference. The first kernel is not additional.
func align(pattern, symbols []int64) *edits {
	e := &edits{}
	different := 0
	i, j := 0, 0
	for i < len(pattern) {
		if e.cost++; j < len(symbols) && pattern[i] == symbols[j] {
			i++
			j++
			continue
		}
		one, found := e.resume(pattern, symbols, i, j)
		if !found {
			return e
		}
		if different += max(one.missing, one.addition); different > mostEdits(len(pattern)) {
			return e
		}
		e.list = append(e.list, one)
		i, j = i+one.missing, j+one.addition
	}
	e.length, e.fits = j, j >= leastKernels
	return e
}

// resume finds the shortest difference after which symbols and sequence are equal again.
func (e *edits) resume(pattern, symbols []int64, i, j int) (edit, bool) {
	for n := 1; n <= min(mostShift, mostEdits(len(pattern))); n++ {
		for _, one := range [...]edit{{i, j, n, 0}, {i, j, 0, n}, {i, j, n, n}} {
			if j == 0 && one.addition > 0 {
				continue // it is before the step
			}
			if e.equal(pattern, symbols, i+one.missing, j+one.addition) {
				return one, true
			}
		}
	}
	return edit{}, false
}

// equal reports whether the next kernels are equal, up to sameKernel or the sequence's end.
func (e *edits) equal(pattern, symbols []int64, i, j int) bool {
	if i > len(pattern) || j > len(symbols) {
		return false
	}
	for n := 0; n < sameKernel && i+n < len(pattern); n++ {
		if e.cost++; j+n >= len(symbols) || pattern[i+n] != symbols[j+n] {
			return false
		}
	}
	return true
}
