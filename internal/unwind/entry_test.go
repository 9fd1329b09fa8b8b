package unwind

import (
	"io"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

type memory []byte

func (m memory) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(m)) {
		return 0, io.EOF
	}
	if n := copy(p, m[off:]); n < len(p) {
		return n, io.EOF
	}
	return len(p), nil
}

// FuzzEntry: unwind tables and stacks are the target's own bytes.
func FuzzEntry(f *testing.F) {
	// A CIE and an FDE as gcc writes them for a function of 16 bytes at 0x100.
	f.Add([]byte{
		0x14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x03, 0x0c, 7, 8, 0x90, 1, 0, 0,
		0x14, 0, 0, 0, 0x1c, 0, 0, 0, 0, 1, 0, 0, 16, 0, 0, 0, 0, 0x44, 0x0e, 16, 0x86, 2, 0, 0,
	}, uint16(24), uint16(0x104))
	f.Fuzz(func(_ *testing.T, b []byte, at, pc uint16) {
		fde, err := parseEntry(memory(b), target.Addr(at), target.Addr(pc))
		if err != nil {
			return
		}
		rules, err := establish(fde, uint64(pc))
		if err != nil {
			return
		}
		s := &ptrace.Snapshot{Base: 0, Stack: b}
		r := registers{regSP: 8}
		_ = r.up(rules, s)
	})
}
