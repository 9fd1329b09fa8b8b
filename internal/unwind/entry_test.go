package unwind

import (
	"debug/elf"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/go-delve/delve/pkg/dwarf/frame"

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

// FuzzEntry parses hostile unwind entries and stacks: the target controls both.
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

// FuzzTable looks entries up in a hostile .eh_frame_hdr.
func FuzzTable(f *testing.F) {
	table := []byte{
		1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 1, 0, 0, 0, // one entry
		0x00, 1, 0, 0, 44, 0, 0, 0, // for 0x100 at 44
		0x14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x03, 0x0c, 7, 8, 0x90, 1, 0, 0,
		0x14, 0, 0, 0, 0x1c, 0, 0, 0, 0, 1, 0, 0, 16, 0, 0, 0, 0, 0x44, 0x0e, 16, 0x86, 2, 0, 0,
	}
	f.Add(table, uint16(0x104))
	im := &target.Image{Phdrs: []elf.Prog64{{Type: uint32(elf.PT_GNU_EH_FRAME)}}}
	f.Fuzz(func(_ *testing.T, b []byte, pc uint16) {
		fde, err := entryFor(memory(b), im, target.Addr(pc))
		if err != nil {
			return
		}
		rules, err := establish(fde, uint64(pc))
		if err != nil {
			return
		}
		r := registers{regSP: 8}
		_ = r.up(rules, &ptrace.Snapshot{Stack: b})
	})
}

// TestExhaustsMemory: establish refuses a program that remembers too many rules
// before it runs it.
func TestExhaustsMemory(t *testing.T) {
	program := []byte{}
	for reg := range byte(64) {
		for high := range byte(64) {
			program = append(program, 0x05, reg|0x80, high, 1) // DW_CFA_offset_extended
		}
	}
	for range 8192 {
		program = append(program, 0x0a)
	}
	fde := &frame.FrameDescriptionEntry{CIE: &frame.CommonInformationEntry{}, Instructions: program}
	if _, err := establish(fde, 0); err == nil {
		t.Error("it ran")
	}
}

// TestRefusedOpcodes: the first expression loops, the second has a block of 32 GB.
func TestRefusedOpcodes(t *testing.T) {
	for _, e := range [][]byte{{0x30, 0x2f, 0xfc, 0xff}, {0x9e, 0xff, 0xff, 0xff, 0xff, 0x7f}} {
		var r registers
		if v, err := r.evaluate(e, 0, &ptrace.Snapshot{}); err == nil {
			t.Errorf("%x: %#x", e, v)
		}
	}
}

// FuzzStacks walks hostile stacks by hostile tables. What is kept for an address does not change a walk, and is bounded.
func FuzzStacks(f *testing.F) {
	table := make([]byte, 512)
	copy(table, []byte{
		1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 1, 0, 0, 0, // one entry
		0x00, 1, 0, 0, 44, 0, 0, 0, // for 0x100 at 44
		0x14, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x03, 0x0c, 7, 8, 0x90, 1, 0, 0,
		0x14, 0, 0, 0, 0x1c, 0, 0, 0, 0, 1, 0, 0, 16, 0, 0, 0, 0, 0x44, 0x0e, 16, 0x86, 2, 0, 0,
	})
	table[0x108], table[0x109] = 4, 1 // the return address on the stack at 0x100: 0x104
	f.Add(table, uint16(0x104), uint16(0x100), uint16(0))
	type place struct{ pc, sp uint64 }
	f.Fuzz(func(t *testing.T, b []byte, pc, sp, base uint16) {
		image := &target.Image{Phdrs: []elf.Prog64{{Type: uint32(elf.PT_GNU_EH_FRAME)}}}
		kept := &Stacks{u: Unwinder{mem: memory(b), codes: []code{{0, 1 << 16, image}}}}
		kept.forget()
		walk := func() (places []place, text string) {
			start := [17]uint64{regSP: uint64(sp), regPC: uint64(pc)}
			err := kept.Walk(&start, uint64(base), b[min(int(base), len(b)):], func(pc, sp uint64) bool {
				places = append(places, place{pc, sp})
				return true
			})
			return places, fmt.Sprint(err)
		}
		first, text := walk()
		if again, textAgain := walk(); !slices.Equal(first, again) || text != textAgain {
			t.Errorf("%v, %s, and by what was kept %v, %s", first, text, again, textAgain)
		}
		if len(first) > framesMax || len(kept.rules) > len(first) || kept.odd > len(first) {
			t.Errorf("%d frames, %d rules kept, %d of them with expressions", len(first), len(kept.rules), kept.odd)
		}
		grows := true // but for what expressions and signal frames say
		for _, r := range kept.rules {
			grows = grows && !r.signal && r.odd == nil
		}
		for i := 1; i < len(first) && grows; i++ {
			if first[i].sp <= first[i-1].sp {
				t.Errorf("the stack does not grow: %v", first)
			}
		}
	})
}
