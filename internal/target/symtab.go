package target

import (
	"debug/elf"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// symbolsFileMax bounds the files whose symbol tables are read.
const symbolsFileMax = 64 << 20

// FileSymbol looks a symbol up in the symbol table of m's file. That is never
// in memory, and has names that the dynamic one lacks: what older releases of
// glibc keep for debuggers.
func (t *Target) FileSymbol(maps []Map, m Module, name string) (Addr, bool, error) {
	f, err := t.openMapped(maps, m.Base)
	if err != nil {
		return 0, false, fmt.Errorf("file of %s: %w", m.Name, err)
	}
	defer f.Close()
	file, err := elf.NewFile(io.NewSectionReader(f, 0, symbolsFileMax))
	if err != nil {
		return 0, false, fmt.Errorf("file of %s: %w: %w", m.Name, ErrMalformed, err)
	}
	symbols, err := file.Symbols()
	if err != nil {
		return 0, false, nil // stripped
	}
	for _, s := range symbols {
		if s.Name == name && s.Section != elf.SHN_UNDEF {
			return m.Base + Addr(s.Value), true, nil
		}
	}
	return 0, false, nil
}

// openMapped opens the file that is mapped at an address: through the mapping,
// or by its path in the target's root, where it must be the same file still.
func (t *Target) openMapped(maps []Map, at Addr) (*os.File, error) {
	m, ok := FindMap(maps, at)
	if !ok || m.Inode == 0 {
		return nil, fmt.Errorf("no file at %#x: %w", at, ErrMalformed)
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/map_files/%x-%x", t.PID, uint64(m.Start), uint64(m.End)))
	if err == nil {
		return f, nil
	}
	root, err := unix.Open(t.Root(), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, m.Path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	f = os.NewFile(uintptr(fd), m.Path)
	if !sameInode(f, m.Inode) {
		_ = f.Close()
		return nil, fmt.Errorf("%s is another file now: %w", m.Path, ErrMalformed)
	}
	return f, nil
}
