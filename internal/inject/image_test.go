package inject

import (
	"math"
	"testing"
)

// TestImageOfAnyRSeq: the target controls the variable in which glibc has the offset of
// its rseq area, so threadImage must accept any value.
func TestImageOfAnyRSeq(t *testing.T) {
	const data, tp, image = 0x10000, 0x8000, 0x10000 // tp from the image's begin
	p := place{data: data, tp: data + dtvAt + tp, size: dtvAt + image}
	for offset, fits := range map[int64]bool{
		0: true, -64: true, image - tp - 8: true, image - tp - 7: false, -tp - 4: false,
		math.MaxInt64 - tp - 4: false, math.MaxInt64 - tp - 7: false, math.MaxInt64: false, math.MinInt64: false,
	} {
		b := threadImage(p, &libc{rseqOffset: offset, rseqKnown: true}, nil, &header{}, 1)
		marked := false
		for i := range b[:len(b)-3] {
			marked = marked || b[i] == 0xfe && b[i+1] == 0xff && b[i+2] == 0xff && b[i+3] == 0xff
		}
		if marked != fits {
			t.Errorf("offset %d: marked %v", offset, marked)
		}
	}
}
