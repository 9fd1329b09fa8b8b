package report

import (
	"database/sql"
	"math/bits"
)

// readLaunchToStart counts the latencies into a histogram: SQLite would sort
// them all, which takes seconds for a million.
func (s *Summary) readLaunchToStart(db *sql.DB) error {
	var h histogram
	err := each(db, func(r *sql.Rows) error {
		var queuedNS int64
		err := r.Scan(&queuedNS)
		h.add(queuedNS)
		return err
	}, "SELECT queued_ns FROM rtl_dispatch WHERE queued_ns IS NOT NULL")
	if err == nil && h.n > 0 {
		s.LaunchToStart = &LaunchToStart{Dispatches: h.n, P50NS: h.percentile(50), P99NS: h.percentile(99)}
	}
	return err
}

// A histogram has 128 buckets for each power of two: a value stands for its
// bucket to within 1/256.
type histogram struct {
	buckets [(64 - subBits) << subBits]int64
	n       int64
}

const subBits = 7

// add takes a value. One below 0 comes from the estimate of the GPU's clock and counts as 0.
func (h *histogram) add(v int64) {
	h.buckets[bucketOf(uint64(max(v, 0)))]++
	h.n++
}

// bucketOf numbers the buckets in the order of their values: those below 2⁷ each have their own.
func bucketOf(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)<<subBits | int(v>>shift)&(1<<subBits-1)
}

// middleOf is the value that stands for a bucket.
func middleOf(bucket int) int64 {
	if bucket < 1<<subBits {
		return int64(bucket)
	}
	shift := bucket>>subBits - 1
	low := int64(1<<subBits|bucket&(1<<subBits-1)) << shift
	return low + int64(1)<<shift/2
}

// percentile is by nearest rank.
func (h *histogram) percentile(p int64) int64 {
	rank := (h.n*p + 99) / 100
	for bucket, n := range h.buckets {
		if rank -= n; rank <= 0 {
			return middleOf(bucket)
		}
	}
	return 0
}
