// Package histogram counts durations, for percentiles in bounded memory.
package histogram

import "math/bits"

// Histogram has 128 buckets for each power of two: the middle of a bucket differs from its
// values by at most 1/256.
type Histogram struct {
	buckets [(64 - subBits) << subBits]int64
	n       int64
	most    int64
}

const subBits = 7

// Add counts a value. A value below 0 is an error of the GPU clock's estimate; it counts as 0.
func (h *Histogram) Add(v int64) {
	h.buckets[bucketOf(uint64(max(v, 0)))]++
	h.n++
	h.most = max(h.most, v)
}

// bucketOf returns the bucket of a value. Buckets ascend; each value below 2⁷ has its own.
func bucketOf(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)<<subBits | int(v>>shift)&(1<<subBits-1)
}

// middleOf returns the middle of a bucket.
func middleOf(bucket int) int64 {
	if bucket < 1<<subBits {
		return int64(bucket)
	}
	shift := bucket>>subBits - 1
	low := int64(1<<subBits|bucket&(1<<subBits-1)) << shift
	return low + int64(1)<<shift/2
}

// Count returns the number of values.
func (h *Histogram) Count() int64 { return h.n }

// Max returns the largest value.
func (h *Histogram) Max() int64 { return h.most }

// Quantile returns a quantile, in thousandths, by nearest rank; at most the largest value.
func (h *Histogram) Quantile(permille int64) int64 {
	rank := (h.n*permille + 999) / 1000
	for bucket, n := range h.buckets {
		if rank -= n; rank <= 0 {
			return min(middleOf(bucket), h.most)
		}
	}
	return 0
}

// Above returns how many values are larger than v, right to the size of v's bucket.
func (h *Histogram) Above(v int64) (n int64) {
	for _, in := range h.buckets[bucketOf(uint64(max(v, 0)))+1:] {
		n += in
	}
	return n
}
