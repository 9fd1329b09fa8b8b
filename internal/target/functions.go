package target

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Symbol is a function or an object in a file's symbol tables. Start and End are relative to the load
// bias.
type Symbol struct {
	Start, End Addr
	Name       string
}

// symbolsMax limits the symbols that are read from a file, and symbolNameMax the bytes of a name.
const (
	symbolsMax    = 1 << 18
	symbolNameMax = 4096
)

// Functions returns the functions in the symbol tables of the file that is mapped at an address, sorted
// by address. It leaves out what does not look like a function of this file.
func (t *Target) Functions(maps []Map, at Addr) ([]Symbol, error) {
	wait := t.BeginRead(Filesystem)
	defer EndRead(wait)
	f, err := t.openMapped(maps, at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return SymbolsOf(f, elf.EM_X86_64, elf.STT_FUNC, elf.STT_GNU_IFUNC)
}

// SymbolsOf returns the defined symbols of some types in .dynsym and .symtab of a file for a machine,
// sorted by address. The file may be hostile.
func SymbolsOf(r io.ReaderAt, machine elf.Machine, types ...elf.SymType) ([]Symbol, error) {
	sections, err := sectionsOf(r, machine)
	if err != nil {
		return nil, err
	}
	var found []Symbol
	for _, s := range sections {
		kind := elf.SectionType(s.Type)
		if kind != elf.SHT_SYMTAB && kind != elf.SHT_DYNSYM || s.Link >= uint32(len(sections)) {
			continue
		}
		if found, err = appendSymbols(found, r, s, sections[s.Link], types); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(found, func(a, b Symbol) int { return cmp.Compare(a.Start, b.Start) })
	return found, nil
}

func appendSymbols(found []Symbol, r io.ReaderAt, symbols, strtab elf.Section64, types []elf.SymType) ([]Symbol, error) {
	if symbols.Size > tableMax || strtab.Size > tableMax {
		return nil, fmt.Errorf("symbol table: %w", ErrMalformed)
	}
	table, names := make([]byte, symbols.Size), make([]byte, strtab.Size)
	for b, s := range map[*[]byte]elf.Section64{&table: symbols, &names: strtab} {
		if _, err := r.ReadAt(*b, int64(s.Off)); err != nil {
			return nil, err
		}
	}
	le := binary.LittleEndian
	for ; len(table) >= elf.Sym64Size && len(found) < symbolsMax; table = table[elf.Sym64Size:] {
		name, kind, section := le.Uint32(table), elf.ST_TYPE(table[4]), elf.SectionIndex(le.Uint16(table[6:]))
		start, size := Addr(le.Uint64(table[8:])), Addr(le.Uint64(table[16:]))
		if !slices.Contains(types, kind) || section == elf.SHN_UNDEF || uint64(name) >= uint64(len(names)) || start+size <= start {
			continue
		}
		text := names[name:min(len(names), int(name)+symbolNameMax)]
		if end := slices.Index(text, 0); end > 0 {
			found = append(found, Symbol{start, start + size, string(text[:end])})
		}
	}
	return found, nil
}

// FunctionAt returns the function that contains an address relative to the load bias; "": none.
// Of several that do it returns the first.
func FunctionAt(functions []Symbol, at Addr) string {
	i, _ := slices.BinarySearchFunc(functions, at, func(f Symbol, at Addr) int {
		if f.Start <= at {
			return -1
		}
		return 1
	})
	name := ""
	for look := 0; i > 0 && look < 16; look++ {
		i--
		if f := functions[i]; f.Start <= at && at < f.End && (name == "" || strings.HasPrefix(name, "_")) {
			name = f.Name
		}
	}
	return name
}

// OpenRegular opens a regular file for reading, by its path in the target's root directory and with the
// rights of the target's user: the target may have chosen the path.
func (t *Target) OpenRegular(path string) (*os.File, error) {
	user, err := t.ThreadUser(t.LiveThread())
	if err != nil {
		return nil, err
	}
	p, err := t.OpenInRootAs(user, path)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	wait := t.BeginRead(Filesystem)
	defer EndRead(wait)
	var f *os.File
	err = user.Do(func() (err error) {
		f, err = openRegular(p.FD, path, func(*unix.Statx_t) bool { return true })
		return err
	})
	return f, err
}
