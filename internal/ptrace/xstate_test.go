package ptrace

import (
	"encoding/binary"
	"testing"
)

func TestWithoutTiles(t *testing.T) {
	const plain, amx = 2696, 2816 + tilesBytes
	for _, tc := range []struct {
		name            string
		bytes, features uint64
		inUse           uint64
		wantBytes       int
		wantFeatures    uint64
	}{
		{"AVX-512", plain, 0x2e7, 0xe7, plain, 0x2e7},
		{"AMX, never asked for", amx, 0x602e7, 0xe7, amx - tilesBytes, 0x202e7},
		{"AMX, tiles live", amx, 0x602e7, 0x600e7, amx, 0x602e7},
	} {
		x := make([]byte, tc.bytes)
		binary.LittleEndian.PutUint64(x[featuresAt:], tc.features)
		binary.LittleEndian.PutUint64(x[inUseAt:], tc.inUse)
		x = withoutTiles(x)
		if got := binary.LittleEndian.Uint64(x[featuresAt:]); len(x) != tc.wantBytes || got != tc.wantFeatures {
			t.Errorf("%s: %d bytes, features %#x; want %d, %#x", tc.name, len(x), got, tc.wantBytes, tc.wantFeatures)
		}
	}
}
