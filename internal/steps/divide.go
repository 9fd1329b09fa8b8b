package steps

import "slices"

// divides reports whether gaps divide a sequence into steps of a shorter one. The gaps are those that most occurrences of
// the sequence have in the same place, and that are not much shorter than the one before it: a thread that waits for a
// processor has gaps in other places each time. Where a shorter one has further kernels at once before or behind it, such as
// a token's before its first layers and after its last, it is a part of the step; a graph that follows after a gap is not.
func divides(sample []kernel, shorter, sequence []int64) bool {
	sequence = rotate(sample, sequence)
	gaps, limit := usualGaps(sample, sequence), middleGap(sample)*longGapMultiple
	steps := 0
	for from, place := 0, 1; place <= len(sequence); place++ {
		if place < len(sequence) && gaps[place] <= max(limit, gaps[0]/2) {
			continue
		}
		piece, next := sequence[from:place], from+len(shorter)
		switch {
		case len(piece) >= len(shorter) && slices.Equal(piece[:len(shorter)], shorter) && (next == place || gaps[next] > limit):
			steps++
		case contains(piece, shorter):
			return false
		}
		from = place
	}
	return steps > 1
}

// usualGaps returns the median of the times before each kernel of a sequence; 0: it is not in the sample.
func usualGaps(sample []kernel, sequence []int64) []int64 {
	var starts []int
	eachMatch(sample, sequence, func(i int) { starts = append(starts, i) })
	usual, gaps := make([]int64, len(sequence)), make([]int64, len(starts))
	for place := range usual {
		for n, i := range starts {
			gaps[n] = sample[i+place].gapNS
		}
		usual[place] = median(gaps)
	}
	return usual
}

// eachMatch visits the places of a sample where a sequence begins, one after the end of the other.
func eachMatch(sample []kernel, sequence []int64, visit func(at int)) {
	m := newMatcher([][]int64{sequence})
	m.append(sample)
	for i := 0; i < len(sample); {
		if m.at(i) < 0 {
			i++
			continue
		}
		visit(i)
		i += len(sequence)
	}
}

// contains reports whether a sequence has another one in it.
func contains(sequence, other []int64) bool {
	m := newMatcher([][]int64{other})
	for _, s := range sequence {
		m.add(s)
	}
	for i := range sequence {
		if m.at(i) >= 0 {
			return true
		}
	}
	return false
}

// period returns the length of the shortest sequence of which this one is several; of no such one its own length.
func period(sequence []int64) int {
	border := make([]int, len(sequence)) // of sequence[:i+1]: the longest begin that is its end, too
	for i := 1; i < len(sequence); i++ {
		n := border[i-1]
		for n > 0 && sequence[n] != sequence[i] {
			n = border[n-1]
		}
		if sequence[n] == sequence[i] {
			n++
		}
		border[i] = n
	}
	if n := len(sequence) - border[len(sequence)-1]; len(sequence)%n == 0 {
		return n
	}
	return len(sequence)
}
