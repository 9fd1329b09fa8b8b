package collector

import (
	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// rounds finds out up to which time the records are complete. In a round the payload's
// worker writes every kernel that has ended by then to the ring. So when two rounds have
// ended since a moment, the second one began after it, and a drain that begins after that
// gets every kernel that ended before that moment.
//
// A round that finds the ring full withholds records, so a round that may have done so does
// not count. For records of calls the rounds are those in which the worker took everything that was begun before: a thread
// that is late in the middle of its record holds up the records behind it in the same lane.
type rounds struct {
	count func() (finished uint64, known bool) // nil: unknown
	now   func() uint64

	waiting bool
	sinceNS uint64 // the moment
	from    uint64 // rounds by then
	passed  bool   // two have ended since, and no drain has ended since that
	markNS  uint64 // complete up to here; 0: unknown
}

const roundsNeeded = 2

// look is called before each drain.
func (r *rounds) look() {
	if r.count == nil {
		return
	}
	sinceNS := r.now() // before the count
	finished, known := r.count()
	switch {
	case !known:
		r.waiting, r.passed = false, false
	case r.waiting:
		r.passed = finished-r.from >= roundsNeeded
	default:
		r.waiting, r.sinceNS, r.from = true, sinceNS, finished
	}
}

// drained is called after each drain; full means that the ring may have been full.
func (r *rounds) drained(full bool) {
	switch {
	case full:
		r.waiting, r.passed = false, false
	case r.passed:
		r.markNS = r.sinceNS
		r.waiting, r.passed = false, false
	}
}

// again returns the same, with nothing known.
func (r *rounds) again() rounds { return rounds{count: r.count, now: r.now} }

// countBy returns a count of rounds from the payload's counters.
func countBy(counters func() (c ring.Counters, known bool), count func(*ring.Counters) uint64) func() (uint64, bool) {
	return func() (uint64, bool) {
		c, known := counters()
		return count(&c), known
	}
}

func boottimeNS() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return uint64(t.Nano())
}
