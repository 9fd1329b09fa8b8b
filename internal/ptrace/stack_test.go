package ptrace

import (
	"math"
	"os"
	"testing"
)

// TestStackAnywhere reads at stack pointers that a hostile target could set: both ends
// of the address space, and addresses without a mapping.
func TestStackAnywhere(t *testing.T) {
	r := newStackReader(os.Getpid(), os.Getpid())
	defer r.close()
	buf := make([]byte, snapshotMax)
	for _, sp := range []uint64{0, 1, 127, 128, page, 1<<47 - 1, 1 << 47, math.MaxUint64 - snapshotMax, math.MaxUint64 - 1, math.MaxUint64} {
		if n := r.read(sp-128, sp, buf); n != 0 {
			t.Errorf("%d bytes at %#x", n, sp)
		}
	}
}
