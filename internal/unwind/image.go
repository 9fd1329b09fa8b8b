package unwind

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"sort"

	"github.com/go-delve/delve/pkg/dwarf/frame"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// code is one executable mapping and the ELF image that it belongs to.
type code struct {
	start, end target.Addr
	image      *target.Image
}

// images lists the executable mappings of the target that can have an unwind table.
func images(mem io.ReaderAt, maps []target.Map) []code {
	var found []code
	opened := make(map[target.Addr]*target.Image)
	for i, m := range maps {
		if m.Perms[2] != 'x' || (m.Inode == 0 && m.Path != "[vdso]") {
			continue
		}
		base, ok := baseOf(maps, i)
		if !ok {
			continue
		}
		im, known := opened[base]
		if !known {
			im, _ = target.OpenImage(mem, base) // nil: code without a table
			opened[base] = im
		}
		if im != nil {
			found = append(found, code{m.Start, m.End, im})
		}
	}
	return found
}

// baseOf finds the mapping at file offset 0: the nearest one at or below maps[i].
func baseOf(maps []target.Map, i int) (target.Addr, bool) {
	m := maps[i]
	for j := i; j >= 0 && i-j < 64; j-- {
		if p := maps[j]; p.Offset == 0 && p.Inode == m.Inode && p.Dev == m.Dev && p.Path == m.Path {
			return p.Start, true
		}
	}
	return 0, false
}

// Encodings of .eh_frame_hdr as every linker writes it (LSB, "Exception
// Frame Header"): the count an unsigned word, the table sorted pairs of words
// relative to the header.
const (
	encWord      = 0x03 // DW_EH_PE_udata4
	encTable     = 0x3b // DW_EH_PE_datarel | DW_EH_PE_sdata4
	cieMax       = 4 << 10
	fdeMax       = 64 << 10
	tableMax     = 1 << 24
	headerBytes  = 12
	entryBytes   = 8
	longFormMark = 0xffffffff
)

// entryFor finds the unwind information of pc through the sorted table of
// .eh_frame_hdr: a few reads, however large the library.
func entryFor(mem io.ReaderAt, im *target.Image, pc target.Addr) (*frame.FrameDescriptionEntry, error) {
	seg, ok := im.Segment(elf.PT_GNU_EH_FRAME)
	if !ok {
		return nil, fmt.Errorf("no unwind table")
	}
	header := im.Base + target.Addr(seg.Vaddr)
	var h [headerBytes]byte
	if _, err := mem.ReadAt(h[:], int64(header)); err != nil {
		return nil, err
	}
	if h[0] != 1 || h[2] != encWord || h[3] != encTable {
		return nil, fmt.Errorf("unwind table in an unknown format")
	}
	count := int(min(binary.LittleEndian.Uint32(h[8:]), tableMax))
	var err error
	read := func(i int) (start, entry target.Addr) {
		var b [entryBytes]byte
		if _, rerr := mem.ReadAt(b[:], int64(header)+headerBytes+int64(i)*entryBytes); rerr != nil {
			err = rerr
		}
		le := binary.LittleEndian
		return header + target.Addr(int64(int32(le.Uint32(b[:])))), header + target.Addr(int64(int32(le.Uint32(b[4:]))))
	}
	i := sort.Search(count, func(i int) bool {
		start, _ := read(i)
		return start > pc
	})
	if err != nil || i == 0 {
		return nil, fmt.Errorf("no entry for %#x: %w", pc, err)
	}
	_, at := read(i - 1)
	if err != nil {
		return nil, err
	}
	return parseEntry(mem, at, pc)
}

// parseEntry gives one FDE and its CIE to delve's parser, as a section that holds
// only these two: parsing the whole .eh_frame of a large library takes 100 ms.
func parseEntry(mem io.ReaderAt, at, pc target.Addr) (fde *frame.FrameDescriptionEntry, err error) {
	// The target controls the bytes, and delve's parser panics on some truncated input.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("unwind entry at %#x: %v", at, r)
		}
	}()
	entry, err := record(mem, at, fdeMax)
	if err != nil {
		return nil, err
	}
	back := binary.LittleEndian.Uint32(entry[4:])
	section, err := record(mem, at+4-target.Addr(back), cieMax)
	if err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(section[4:]) != 0 {
		return nil, fmt.Errorf("unwind entry at %#x has no CIE", at)
	}
	start := len(section)
	section = append(section, entry...)
	binary.LittleEndian.PutUint32(section[start+4:], uint32(start+4)) // the CIE is at 0 now
	entries, err := frame.Parse(section, binary.LittleEndian, 0, 8, uint64(at)-uint64(start))
	if err != nil {
		return nil, err
	}
	if len(entries) != 1 || !entries[0].Cover(uint64(pc)) {
		return nil, fmt.Errorf("no unwind entry covers %#x", pc)
	}
	return entries[0], nil
}

// record reads one CIE or FDE with its length word.
func record(mem io.ReaderAt, at target.Addr, limit uint32) ([]byte, error) {
	var word [4]byte
	if _, err := mem.ReadAt(word[:], int64(at)); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(word[:])
	if n == longFormMark || n < 8 || n > limit {
		return nil, fmt.Errorf("unwind record of %d bytes at %#x", n, at)
	}
	b := make([]byte, 4+n)
	_, err := mem.ReadAt(b, int64(at))
	return b, err
}
