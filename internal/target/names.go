package target

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Limits of File's reads. A file may be hostile, and a large library has a million symbols.
const (
	tablesMax    = 1 << 29 // bytes of all symbol tables
	matchesMax   = 1 << 22 // symbols that have a wanted address, counted for each address
	sameStartMax = 4       // names of one function
	notesMax     = 4 << 10
)

// File reads an ELF file of amd64 from disk, or from memory that has all of one.
type File struct {
	r        io.ReaderAt
	sections []elf.Section64
	names    uint16 // the section with the sections' names
	loads    []elf.Prog64
}

// ReadFile reads the headers of a file.
func ReadFile(r io.ReaderAt) (*File, error) {
	f := &File{r: r}
	var h elf.Header64
	if err := readStruct(r, 0, &h); err != nil {
		return nil, err
	}
	f.names = h.Shstrndx
	var err error
	if f.sections, err = sectionsOf(r, elf.EM_X86_64); err != nil {
		return nil, err
	}
	if h.Phnum > phdrsMax || h.Phentsize != uint16(binary.Size(elf.Prog64{})) || h.Phoff > sectionsMax {
		return nil, fmt.Errorf("program headers: %w", ErrMalformed)
	}
	all := make([]elf.Prog64, h.Phnum)
	if err := readStruct(r, Addr(h.Phoff), all); err != nil {
		return nil, err
	}
	for _, p := range all {
		if elf.ProgType(p.Type) == elf.PT_LOAD {
			f.loads = append(f.loads, p)
		}
	}
	return f, nil
}

// Address returns the file's address of what is at an offset in it.
func (f *File) Address(offset uint64) (Addr, bool) {
	for _, p := range f.loads {
		if offset >= p.Off && offset-p.Off < p.Filesz {
			return Addr(offset - p.Off + p.Vaddr), true
		}
	}
	return 0, false
}

// BuildID returns the file's build ID in hexadecimal digits; "": it has none.
func (f *File) BuildID() string {
	for _, s := range f.sections {
		if elf.SectionType(s.Type) != elf.SHT_NOTE || s.Size > notesMax {
			continue
		}
		b := make([]byte, s.Size)
		if _, err := f.r.ReadAt(b, int64(s.Off)); err != nil {
			continue
		}
		if id := buildID(b); id != "" {
			return id
		}
	}
	return ""
}

// buildID finds the build ID in notes (elf(5), "Notes").
func buildID(b []byte) string {
	const typeBuildID, headBytes = 3, 12
	for len(b) >= headBytes {
		le := binary.LittleEndian
		name, size, kind := uint64(le.Uint32(b)), uint64(le.Uint32(b[4:])), le.Uint32(b[8:])
		from := headBytes + (name+3)&^3
		to := from + (size+3)&^3
		if to > uint64(len(b)) {
			break
		}
		if kind == typeBuildID && bytes.HasPrefix(b[headBytes:], []byte("GNU\x00")) && size > 1 {
			return hex.EncodeToString(b[from : from+size])
		}
		b = b[to:]
	}
	return ""
}

// candidate is a function that has a wanted address.
type candidate struct {
	start Addr
	names []uint64 // offsets in the file
}

// Functions returns the names of the functions that have the wanted addresses of the file, as far as its symbol tables
// say. It keeps only these in memory, however large the tables are.
func (f *File) Functions(wanted []Addr) map[Addr]string {
	wanted = slices.Clone(wanted)
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	found := make([]candidate, len(wanted))
	left, budget := matchesMax, uint64(tablesMax)
	for _, s := range f.sections {
		kind := elf.SectionType(s.Type)
		if (kind == elf.SHT_SYMTAB || kind == elf.SHT_DYNSYM) && s.Link < uint32(len(f.sections)) && s.Size <= budget {
			budget -= s.Size
			f.search(s, f.sections[s.Link], wanted, found, &left)
		}
	}
	names := map[Addr]string{}
	for i, c := range found {
		if name := f.best(c); name != "" {
			names[wanted[i]] = name
		}
	}
	return names
}

// search looks for the wanted addresses in one symbol table, a part of it at a time.
func (f *File) search(symbols, strings elf.Section64, wanted []Addr, found []candidate, left *int) {
	const partBytes = 4096 * elf.Sym64Size
	part := make([]byte, min(symbols.Size, partBytes))
	for at := uint64(0); at < symbols.Size; at += partBytes {
		b := part[:min(symbols.Size-at, partBytes)]
		if _, err := f.r.ReadAt(b, int64(symbols.Off+at)); err != nil {
			return
		}
		for ; len(b) >= elf.Sym64Size; b = b[elf.Sym64Size:] {
			note(b, strings, wanted, found, left)
		}
	}
}

// note notes a symbol for the wanted addresses in it.
func note(b []byte, strings elf.Section64, wanted []Addr, found []candidate, left *int) {
	le := binary.LittleEndian
	name, kind, section := uint64(le.Uint32(b)), elf.ST_TYPE(b[4]), elf.SectionIndex(le.Uint16(b[6:]))
	start, size := Addr(le.Uint64(b[8:])), Addr(le.Uint64(b[16:]))
	if kind != elf.STT_FUNC && kind != elf.STT_GNU_IFUNC || section == elf.SHN_UNDEF || name == 0 || name >= strings.Size || start+size <= start {
		return
	}
	i, _ := slices.BinarySearch(wanted, start)
	for ; i < len(wanted) && wanted[i] < start+size && *left > 0; i++ {
		*left--
		c := &found[i]
		switch {
		case len(c.names) == 0 || start > c.start: // the inner one of two
			*c = candidate{start, []uint64{strings.Off + name}}
		case start == c.start && len(c.names) < sameStartMax:
			c.names = append(c.names, strings.Off+name)
		}
	}
}

// best returns the name of a function that is most like one in its source: of several the first without an
// underscore, or with a mangled name.
func (f *File) best(c candidate) string {
	all := make([]string, 0, len(c.names))
	for _, at := range c.names {
		if name, err := f.text(at); err == nil && name != "" {
			all = append(all, name)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return slices.MinFunc(all, func(a, b string) int { return cmp.Compare(reserved(a), reserved(b)) })
}

func reserved(name string) int {
	if strings.HasPrefix(name, "_") && !strings.HasPrefix(name, "_Z") {
		return 1
	}
	return 0
}

// text reads a string of at most symbolNameMax bytes; a longer one is cut.
func (f *File) text(at uint64) (string, error) {
	b := make([]byte, symbolNameMax)
	n, err := f.r.ReadAt(b, int64(at))
	if n == 0 {
		return "", err
	}
	text, _, _ := bytes.Cut(b[:n], []byte{0})
	text, _, _ = bytes.Cut(text, []byte("@")) // of its version
	return string(text), nil
}
