package histogram

import (
	"math"
	"testing"
)

func TestHistogramBuckets(t *testing.T) {
	last := -1
	for v := int64(0); v >= 0 && v < math.MaxInt64/2; v += v/100 + 1 {
		b := bucketOf(uint64(v))
		if b < last {
			t.Fatalf("%d is in bucket %d, below %d", v, b, last)
		}
		last = b
		if off := math.Abs(float64(middleOf(b) - v)); off > float64(v)/256+0.5 {
			t.Fatalf("%d stands as %d", v, middleOf(b))
		}
	}
	var h Histogram
	h.Add(math.MaxInt64) // fits
	h.Add(math.MinInt64)
	if h.Quantile(500) != 0 || h.Quantile(990) < math.MaxInt64/256*255 {
		t.Errorf("p50 %d, p99 %d", h.Quantile(500), h.Quantile(990))
	}
}

func TestPercentiles(t *testing.T) {
	var h Histogram
	for v := range int64(100) {
		h.Add(v + 1)
	}
	if h.Quantile(500) != 50 || h.Quantile(990) != 99 {
		t.Errorf("p50 %d, p99 %d", h.Quantile(500), h.Quantile(990))
	}
}
