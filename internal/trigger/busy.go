package trigger

import (
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// busy fires when the share of a period in which a GPU ran kernels falls below a limit. It fires again
// only after the share was above it.
type busy struct {
	gpus
	share   float64
	sliceNS uint64 // a period is slices of this length
}

const busySlices = 64

func newBusy(s *Set, share float64, periodNS uint64) *busy {
	b := &busy{share: share, sliceNS: periodNS / busySlices}
	b.gpus = newGPUs(s, b.run)
	return b
}

func (b *busy) kernel(d *tracedb.Dispatch, _ func(string, uint64)) { b.add(d) }

func (b *busy) lost(fromNS, untilNS uint64) { b.cover(fromNS, untilNS) }

// run adds a kernel's time that no earlier kernel covers to the slices.
func (b *busy) run(one *gpu, s spanNS) {
	if one.busy == nil {
		one.busy = make([]uint64, 4*busySlices) // by number of the slice, modulo: the period, and what is ahead of it
		one.firstNS = s.start
	}
	b.advance(one, s.end)
	for at := max(s.start, one.coveredNS, oldest(one, b.sliceNS)); at < s.end; {
		end := min((at/b.sliceNS+1)*b.sliceNS, s.end)
		one.busy[at/b.sliceNS%uint64(len(one.busy))] += end - at
		at = end
	}
}

// oldest returns the begin of the oldest slice.
func oldest(one *gpu, sliceNS uint64) uint64 {
	n := uint64(len(one.busy)) - 1
	return (max(one.newest, n) - n) * sliceNS
}

// advance clears the slices up to a time.
func (b *busy) advance(one *gpu, ns uint64) {
	number, n := ns/b.sliceNS, uint64(len(one.busy))
	if number <= one.newest {
		return
	}
	for from := max(one.newest+1, number-min(number, n-1)); from <= number; from++ {
		one.busy[from%n] = 0
	}
	one.newest = number
}

func (b *busy) settle(untilNS uint64, idle bool, fire func(string, uint64)) {
	b.until(untilNS - min(untilNS, settleNS))
	end := (untilNS - min(untilNS, settleNS)) / b.sliceNS // the first slice that may get more
	for _, one := range b.gpu {
		if one.busy == nil || end < busySlices || one.firstNS > (end-busySlices)*b.sliceNS || end-busySlices+uint64(len(one.busy)) <= one.newest {
			continue
		}
		sum := uint64(0)
		for n := end - busySlices; n < end; n++ {
			if n <= one.newest {
				sum += one.busy[n%uint64(len(one.busy))]
			}
		}
		if !idle && one.coveredNS < end*b.sliceNS { // a kernel may be running since then
			sum += end*b.sliceNS - max(one.coveredNS, (end-busySlices)*b.sliceNS)
		}
		share := float64(sum) / float64(busySlices*b.sliceNS)
		below := share < b.share
		if below && !one.below {
			fire(humanize.Percent(100*share), end*b.sliceNS)
		}
		one.below = below
	}
}
