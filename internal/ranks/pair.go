package ranks

import "slices"

// Two kernels of two ranks can be one collective if they run at the same time, or are apart by no more than slackNS, as
// the clocks of two GPUs may be.
const slackNS = 20_000

// ahead is how many later kernels are looked at for a better partner.
const ahead = 8

// The evidence that two lanes do collectives together.
const (
	leastPairs   = 8
	leastPercent = 60 // of the shorter one's kernels while both were recorded
	endSpacing   = 8  // pairs end together: within the 8th part of the time between two kernels, in the median; see spread
	farEnds      = 8  // a pair whose ends are apart 8 times as far as in the median is none
)

// pair is two kernels, as places in the lanes' lists of free kernels.
type pair struct{ a, b int32 }

// pairing finds the pairs of two lanes.
type pairing struct {
	a, b  *lane
	pairs []pair
	apart []int64 // ns between the ends of each pair
}

func (p *pairing) left(i int) *Kernel  { return &p.a.kernels[p.a.free[i]] }
func (p *pairing) right(j int) *Kernel { return &p.b.kernels[p.b.free[j]] }

// touches reports whether two kernels can be one collective.
func touches(a, b *Kernel) bool {
	return a.StartNS <= b.EndNS+slackNS && b.StartNS <= a.EndNS+slackNS
}

func endsApart(a, b *Kernel) int64 {
	d := a.EndNS - b.EndNS
	return max(d, -d)
}

// partner returns the place of the kernel that ends next to k, of those that touch it; -1: there is none.
func partner(k *Kernel, from, count int, at func(int) *Kernel) int {
	best, bestNS := -1, int64(0)
	for i := from; i < min(from+ahead, count); i++ {
		other := at(i)
		if d := endsApart(k, other); touches(k, other) && (best < 0 || d < bestNS) {
			best, bestNS = i, d
		}
	}
	return best
}

// find walks both lanes in the order of ends. Two kernels are a pair if each is the other's partner. Otherwise the
// kernel that has a better partner further on waits, and the one in front of that partner is left out.
func (p *pairing) find() {
	i, j := 0, 0
	for i < len(p.a.free) && j < len(p.b.free) {
		a, b := p.left(i), p.right(j)
		toB, toA := partner(a, j, len(p.b.free), p.right), partner(b, i, len(p.a.free), p.left)
		switch {
		case toB == j && toA == i:
			p.pairs = append(p.pairs, pair{int32(i), int32(j)})
			p.apart = append(p.apart, endsApart(a, b))
			i++
			j++
		case toB == j: // b fits better to a later kernel
			i++
		case toA == i:
			j++
		case a.EndNS <= b.EndNS:
			i++
		default:
			j++
		}
	}
}

// tighten removes the pairs whose ends are far apart, compared with the median.
func (p *pairing) tighten() (medianNS int64) {
	if len(p.pairs) == 0 {
		return 0
	}
	medianNS = median(p.apart)
	most := max(farEnds*medianNS, ClockNS)
	kept := p.pairs[:0]
	for n, one := range p.pairs {
		if p.apart[n] <= most {
			kept = append(kept, one)
		}
	}
	p.pairs = kept
	return medianNS
}

// together finds the pairs, and reports whether the lanes do collectives together. Of one communicator they do.
func (p *pairing) together() (medianNS int64, together bool) {
	p.find()
	medianNS = p.tighten()
	if p.a.isExact() {
		return medianNS, len(p.pairs) > 0
	}
	if len(p.pairs) < leastPairs {
		return medianNS, false
	}
	shorter := min(p.meanwhile(p.a, p.b), p.meanwhile(p.b, p.a))
	return medianNS, len(p.pairs)*100 >= shorter*leastPercent && p.spread(medianNS)*endSpacing <= min(spacing(p.a), spacing(p.b))
}

// spread returns how far the ends of pairs are apart, in the median, without what the clocks of both ranks are apart: that is the
// same for all pairs. In a graph's replay, kernels follow each other so closely that it would count.
func (p *pairing) spread(medianNS int64) int64 {
	apart := make([]int64, 0, len(p.pairs))
	for _, one := range p.pairs {
		apart = append(apart, p.right(int(one.b)).EndNS-p.left(int(one.a)).EndNS)
	}
	clocksNS := median(apart)
	if max(clocksNS, -clocksNS) > ClockNS {
		return medianNS
	}
	for i, ns := range apart {
		apart[i] = max(ns-clocksNS, clocksNS-ns)
	}
	return min(medianNS, median(apart))
}

// meanwhile returns how many free kernels of a lane end while the other one has free kernels.
func (p *pairing) meanwhile(of, other *lane) (n int) {
	fromNS, untilNS := other.kernels[other.free[0]].EndNS, other.kernels[other.free[len(other.free)-1]].EndNS
	for _, i := range of.free {
		if end := of.kernels[i].EndNS; end >= fromNS-slackNS && end <= untilNS+slackNS {
			n++
		}
	}
	return n
}

// spacing returns the median time between the ends of two free kernels.
func spacing(l *lane) int64 {
	var all []int64
	for i := 1; i < len(l.free); i++ {
		all = append(all, l.kernels[l.free[i]].EndNS-l.kernels[l.free[i-1]].EndNS)
	}
	return median(all)
}

// median returns the middle value, of an even number the upper one; 0: there is none.
func median(values []int64) int64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}
