package ptrace

import "encoding/binary"

// Tiles (AMX) are the only vector state for which a process must ask
// (Documentation/arch/x86/xstate.rst).
const (
	featuresAt = 464 // the mask of features, in the regset (sw_usable_bytes, asm/user.h)
	inUseAt    = 512 // XSTATE_BV (Intel SDM, volume 1, 13.4.2)
	tiles      = 1 << 18
	tilesBytes = 8192 // behind everything else
)

// withoutTiles cuts off tiles that are not in use. The regset has space for them on
// every thread, but rt_sigreturn accepts no state larger than the process has asked
// for, and would restore only the SSE registers (check_xstate_in_sigframe).
func withoutTiles(x []byte) []byte {
	le := binary.LittleEndian
	if len(x) < inUseAt+8+tilesBytes || le.Uint64(x[featuresAt:])&tiles == 0 || le.Uint64(x[inUseAt:])&tiles != 0 {
		return x
	}
	le.PutUint64(x[featuresAt:], le.Uint64(x[featuresAt:])&^tiles)
	return x[:len(x)-tilesBytes]
}
