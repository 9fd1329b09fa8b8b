package target

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"unsafe"
)

// Image is an ELF file as the loader has mapped it. It is read from the target's
// memory, not from disk: the file may have been replaced, or be in a mount namespace
// that the tool cannot enter. All of it is hostile input: every count and every length
// is limited.
type Image struct {
	Base  Addr // load bias: p_vaddr and st_value are relative to it
	Phdrs []elf.Prog64

	mem     io.ReaderAt
	symtab  Addr
	strtab  Addr
	strsz   uint64
	gnuHash Addr
	versym  Addr
}

const (
	phdrsMax    = 128
	dynamicMax  = 1024    // entries
	chainMax    = 1 << 12 // symbols that share a hash bucket: a handful, by the linkers' choice
	symbolMax   = 256     // bytes of a name looked up
	sectionsMax = 1 << 30
)

// OpenImage reads the headers of the ELF image mapped at base.
func OpenImage(mem io.ReaderAt, base Addr) (*Image, error) {
	var h elf.Header64
	if err := readStruct(mem, base, &h); err != nil {
		return nil, fmt.Errorf("ELF header at %#x: %w", base, err)
	}
	if err := checkIdent(&h, elf.EM_X86_64); err != nil {
		return nil, fmt.Errorf("ELF header at %#x: %w", base, err)
	}
	if h.Phnum > phdrsMax || h.Phentsize != uint16(unsafe.Sizeof(elf.Prog64{})) || h.Phoff > sectionsMax {
		return nil, fmt.Errorf("program headers at %#x: %w", base, ErrMalformed)
	}
	im := &Image{Base: base, mem: mem, Phdrs: make([]elf.Prog64, h.Phnum)}
	if err := readStruct(mem, base+Addr(h.Phoff), im.Phdrs); err != nil {
		return nil, fmt.Errorf("program headers at %#x: %w", base, err)
	}
	// The first segment has the image's start address; it is 0 for a position-independent
	// file.
	for _, p := range im.Phdrs {
		if elf.ProgType(p.Type) == elf.PT_LOAD {
			im.Base = base - Addr(p.Vaddr&^0xfff)
			break
		}
	}
	return im, im.dynamic()
}

func checkIdent(h *elf.Header64, want elf.Machine) error {
	if string(h.Ident[:4]) != elf.ELFMAG {
		return fmt.Errorf("no ELF magic: %w", ErrMalformed)
	}
	class, machine := elf.Class(h.Ident[elf.EI_CLASS]), elf.Machine(h.Machine)
	if class != elf.ELFCLASS64 || machine != want {
		return fmt.Errorf("%v %v: %w", class, machine, ErrArch)
	}
	return nil
}

// Segment returns the first program header of type pt.
func (im *Image) Segment(pt elf.ProgType) (elf.Prog64, bool) {
	for _, p := range im.Phdrs {
		if elf.ProgType(p.Type) == pt {
			return p, true
		}
	}
	return elf.Prog64{}, false
}

func (im *Image) dynamic() error {
	seg, ok := im.Segment(elf.PT_DYNAMIC)
	if !ok {
		return nil // static: no symbols to be found
	}
	entries := make([]elf.Dyn64, min(seg.Memsz/16, dynamicMax))
	if err := readStruct(im.mem, im.Base+Addr(seg.Vaddr), entries); err != nil {
		return fmt.Errorf("dynamic section at %#x: %w", im.Base, err)
	}
	for _, d := range entries {
		switch elf.DynTag(d.Tag) {
		case elf.DT_NULL:
			return nil
		case elf.DT_SYMTAB:
			im.symtab = im.pointer(d.Val)
		case elf.DT_STRTAB:
			im.strtab = im.pointer(d.Val)
		case elf.DT_STRSZ:
			im.strsz = d.Val
		case elf.DT_GNU_HASH:
			im.gnuHash = im.pointer(d.Val)
		case elf.DT_VERSYM:
			im.versym = im.pointer(d.Val)
		}
	}
	return fmt.Errorf("dynamic section at %#x has no end: %w", im.Base, ErrMalformed)
}

// pointer resolves a DT_ pointer. glibc relocates these in place, except in objects
// whose dynamic section is read-only (the vDSO).
func (im *Image) pointer(v uint64) Addr {
	if Addr(v) < im.Base {
		return im.Base + Addr(v)
	}
	return Addr(v)
}

// Symbol looks up a defined symbol in .dynsym through the GNU hash table, and prefers
// its default version.
func (im *Image) Symbol(name string) (Addr, bool, error) {
	addr, _, ok, err := im.SizedSymbol(name)
	return addr, ok, err
}

// SizedSymbol is Symbol that also returns the bytes that the symbol has by the table.
func (im *Image) SizedSymbol(name string) (addr Addr, size uint64, ok bool, err error) {
	if im.gnuHash == 0 || im.symtab == 0 || im.strtab == 0 || len(name) >= symbolMax {
		return 0, 0, false, nil
	}
	var head struct{ Buckets, Offset, Bloom, Shift uint32 }
	if err := readStruct(im.mem, im.gnuHash, &head); err != nil {
		return 0, 0, false, err
	}
	if head.Buckets == 0 || head.Bloom > 1<<20 || head.Buckets > 1<<24 {
		return 0, 0, false, fmt.Errorf("hash table at %#x: %w", im.gnuHash, ErrMalformed)
	}
	hash := gnuHash(name)
	buckets := im.gnuHash + 16 + Addr(head.Bloom)*8
	chains := buckets + Addr(head.Buckets)*4
	var index uint32
	if err := readStruct(im.mem, buckets+4*Addr(hash%head.Buckets), &index); err != nil {
		return 0, 0, false, err
	}
	if index < head.Offset {
		return 0, 0, false, nil
	}
	for range chainMax {
		var h uint32
		if err := readStruct(im.mem, chains+4*Addr(index-head.Offset), &h); err != nil {
			return 0, 0, false, err
		}
		if h|1 == hash|1 {
			at, bytes, hidden, err := im.match(index, name)
			if err != nil {
				return 0, 0, false, err
			}
			if at != 0 {
				if addr, size = at, bytes; !hidden {
					break
				}
			}
		}
		if h&1 != 0 {
			break
		}
		index++
	}
	return addr, size, addr != 0, nil
}

// match returns the address and the bytes of the symbol with that index, if its name is name and it is
// defined in this image. hidden reports whether it is a version other than the default.
func (im *Image) match(index uint32, name string) (addr Addr, size uint64, hidden bool, err error) {
	var sym elf.Sym64
	if err := readStruct(im.mem, im.symtab+Addr(index)*elf.Sym64Size, &sym); err != nil {
		return 0, 0, false, err
	}
	if elf.SectionIndex(sym.Shndx) == elf.SHN_UNDEF || uint64(sym.Name)+uint64(len(name)) >= im.strsz {
		return 0, 0, false, nil
	}
	s := make([]byte, len(name)+1)
	if _, err := im.mem.ReadAt(s, int64(im.strtab)+int64(sym.Name)); err != nil {
		return 0, 0, false, err
	}
	if string(s) != name+"\x00" {
		return 0, 0, false, nil
	}
	if im.versym != 0 {
		var v uint16
		if err := readStruct(im.mem, im.versym+2*Addr(index), &v); err != nil {
			return 0, 0, false, err
		}
		hidden = v&0x8000 != 0
	}
	return im.Base + Addr(sym.Value), sym.Size, hidden, nil
}

func gnuHash(name string) uint32 {
	h := uint32(5381)
	for i := range len(name) {
		h = h*33 + uint32(name[i])
	}
	return h
}

func readStruct(r io.ReaderAt, a Addr, v any) error {
	b := make([]byte, binary.Size(v))
	if _, err := r.ReadAt(b, int64(a)); err != nil {
		return err
	}
	_, err := binary.Decode(b, binary.LittleEndian, v)
	return err
}
