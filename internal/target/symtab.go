package target

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	fileSectionsMax = 256
	tableMax        = 8 << 20 // bytes, of symbols and of their names
)

// FileSymbol looks up a symbol in the symbol table of m's file. That table is not mapped,
// and has symbols that the dynamic one lacks, such as the ones that older releases of
// glibc have for debuggers.
func (t *Target) FileSymbol(maps []Map, m Module, name string) (Addr, bool, error) {
	wait := t.BeginRead(Filesystem) // on FUSE, open, read and close are requests to the server
	defer EndRead(wait)
	f, err := t.openMapped(maps, m.Base)
	if err != nil {
		return 0, false, fmt.Errorf("file of %s: %w", m.Name, err)
	}
	defer f.Close()
	value, ok, err := fileSymbol(f, name)
	if err != nil {
		return 0, false, fmt.Errorf("file of %s: %w", m.Name, err)
	}
	return m.Base + Addr(value), ok, nil
}

// fileSymbol does not use debug/elf, which makes a string of every name: a hostile file
// can have many long ones.
func fileSymbol(r io.ReaderAt, name string) (uint64, bool, error) {
	sections, err := sectionsOf(r, elf.EM_X86_64)
	if err != nil {
		return 0, false, err
	}
	for _, s := range sections {
		if elf.SectionType(s.Type) == elf.SHT_SYMTAB && s.Link < uint32(len(sections)) {
			return searchTable(r, s, sections[s.Link], name)
		}
	}
	return 0, false, nil // stripped
}

// sectionsOf reads the section headers of a 64-bit file for a machine.
func sectionsOf(r io.ReaderAt, machine elf.Machine) ([]elf.Section64, error) {
	var h elf.Header64
	if err := readStruct(r, 0, &h); err != nil {
		return nil, err
	}
	if err := checkIdent(&h, machine); err != nil {
		return nil, err
	}
	if h.Shnum > fileSectionsMax || h.Shoff > sectionsMax || h.Shentsize != uint16(binary.Size(elf.Section64{})) {
		return nil, fmt.Errorf("section headers: %w", ErrMalformed)
	}
	sections := make([]elf.Section64, h.Shnum)
	return sections, readStruct(r, Addr(h.Shoff), sections)
}

func searchTable(r io.ReaderAt, symbols, strings elf.Section64, name string) (uint64, bool, error) {
	if symbols.Size > tableMax || strings.Size > tableMax {
		return 0, false, fmt.Errorf("symbol table: %w", ErrMalformed)
	}
	table := make([]elf.Sym64, symbols.Size/elf.Sym64Size)
	names := make([]byte, strings.Size)
	if err := readStruct(r, Addr(symbols.Off), table); err != nil {
		return 0, false, err
	}
	if _, err := r.ReadAt(names, int64(strings.Off)); err != nil {
		return 0, false, err
	}
	wanted := append([]byte(name), 0)
	for _, s := range table {
		if uint64(s.Name) < strings.Size && bytes.HasPrefix(names[s.Name:], wanted) && elf.SectionIndex(s.Shndx) != elf.SHN_UNDEF {
			return s.Value, true, nil
		}
	}
	return 0, false, nil
}

// openMapped opens the file that is mapped at an address: through the mapping, or by its
// path in the target's root, if the inode there is still the same.
func (t *Target) openMapped(maps []Map, at Addr) (*os.File, error) {
	m, ok := FindMap(maps, at)
	if !ok || m.Inode == 0 {
		return nil, fmt.Errorf("no file at %#x: %w", at, ErrMalformed)
	}
	name, err := unix.Open(t.path(fmt.Sprintf("map_files/%x-%x", uint64(m.Start), uint64(m.End))), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(name)
		return openRegular(name, m.Path, func(*unix.Statx_t) bool { return true })
	}
	p, err := t.OpenInRoot(m.Path)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return openRegular(p.FD, m.Path, func(st *unix.Statx_t) bool { return st.Ino == m.Inode })
}

// openRegular opens the file of an O_PATH descriptor after it has checked that it is a
// regular file for which fits returns true: opening any other file may block or have an
// effect.
func openRegular(name int, path string, fits func(*unix.Statx_t) bool) (*os.File, error) {
	var st unix.Statx_t
	const how = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(name, "", how, unix.STATX_BASIC_STATS, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || !fits(&st) {
		return nil, fmt.Errorf("%s is another file now: %w", path, ErrMalformed)
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", name), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}
