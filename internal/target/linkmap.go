package target

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
)

// Module is one object that the target's dynamic loader knows.
type Module struct {
	*Image
	Name    string // as the loader spells it; "" for the program itself
	LinkMap Addr   // its struct link_map
}

const modulesMax = 4096

// Modules walks the loader's list of objects (<link.h>, struct r_debug). It
// fails with ErrLoading while the list is being changed.
func (t *Target) Modules(maps []Map) ([]Module, error) {
	ld, err := t.loader(maps)
	if err != nil {
		return nil, err
	}
	debug, ok, err := ld.Symbol("_r_debug")
	if err != nil || !ok {
		return nil, fmt.Errorf("_r_debug of pid %d: %w", t.PID, orMissing(err))
	}
	var r struct {
		Version, _ uint32
		Map, Brk   uint64
		State, _   uint32
	}
	if err := readStruct(t, debug, &r); err != nil {
		return nil, fmt.Errorf("_r_debug of pid %d: %w", t.PID, err)
	}
	if r.State != 0 { // RT_CONSISTENT
		return nil, fmt.Errorf("pid %d: %w", t.PID, ErrLoading)
	}
	var modules []Module
	for at := Addr(r.Map); at != 0; {
		if len(modules) == modulesMax {
			return nil, fmt.Errorf("pid %d: list of more than %d libraries: %w", t.PID, modulesMax, ErrMalformed)
		}
		var l struct{ Addr, Name, Dynamic, Next, Prev uint64 }
		if err := readStruct(t, at, &l); err != nil {
			return nil, fmt.Errorf("link map of pid %d: %w", t.PID, err)
		}
		name, err := t.CString(Addr(l.Name), 4096)
		if err != nil {
			return nil, fmt.Errorf("link map of pid %d: %w", t.PID, err)
		}
		im, err := t.imageAt(maps, Addr(l.Addr), Addr(l.Dynamic))
		if err != nil {
			im = &Image{Base: Addr(l.Addr)} // no headers, hence no symbols and no TLS
		}
		modules = append(modules, Module{Image: im, Name: name, LinkMap: at})
		at = Addr(l.Next)
	}
	return modules, nil
}

// imageAt finds the headers of the object with that load bias: they begin the
// lowest mapping of the file that holds its dynamic section.
func (t *Target) imageAt(maps []Map, bias, dynamic Addr) (*Image, error) {
	home, ok := FindMap(maps, dynamic)
	if !ok {
		return nil, fmt.Errorf("dynamic section at %#x is not mapped: %w", dynamic, ErrMalformed)
	}
	if bias != 0 {
		if im, err := OpenImage(t, bias); err == nil {
			return im, nil
		}
	}
	for _, m := range maps {
		if m.Dev == home.Dev && m.Inode == home.Inode && m.Path == home.Path && m.Offset == 0 {
			if im, err := OpenImage(t, m.Start); err == nil && im.Base == bias {
				return im, nil
			}
		}
	}
	return nil, fmt.Errorf("no ELF header with load bias %#x: %w", bias, ErrMalformed)
}

// loader is the image of the dynamic loader. A program without one is
// static, one with musl's is musl.
func (t *Target) loader(maps []Map) (*Image, error) {
	for _, m := range maps {
		base := path.Base(m.Path)
		if m.Offset != 0 || m.Inode == 0 {
			continue
		}
		if strings.HasPrefix(base, "ld-musl-") {
			return nil, fmt.Errorf("pid %d: %w", t.PID, ErrMusl)
		}
		if strings.HasPrefix(base, "ld-linux") || strings.HasPrefix(base, "ld-2.") {
			im, err := OpenImage(t, m.Start)
			if errors.Is(err, ErrArch) {
				return nil, fmt.Errorf("pid %d: %w", t.PID, err)
			}
			if err == nil && im.gnuHash != 0 {
				return im, nil
			}
		}
	}
	return nil, t.noLoader(maps)
}

// noLoader says why no loader of glibc's was found, by the one that the program
// asks for (PT_INTERP): a distribution may keep musl's under another name.
func (t *Target) noLoader(maps []Map) error {
	name := t.interpreter(maps)
	switch {
	case name == "":
		return fmt.Errorf("pid %d: %w", t.PID, ErrStatic)
	case strings.HasPrefix(path.Base(name), "ld-musl-"):
		return fmt.Errorf("pid %d: %w", t.PID, ErrMusl)
	}
	return fmt.Errorf("pid %d has the loader %q: %w", t.PID, name, ErrLibc)
}

// interpreter is the loader that the program's file asks for; "": none.
func (t *Target) interpreter(maps []Map) string {
	program, err := os.Readlink(t.taskPath("exe"))
	if err != nil {
		return ""
	}
	program = strings.TrimSuffix(program, " (deleted)")
	for _, m := range maps {
		if m.Path != program || m.Offset != 0 {
			continue
		}
		if im, err := OpenImage(t, m.Start); err == nil {
			if seg, ok := im.Segment(elf.PT_INTERP); ok {
				name, _ := t.CString(im.Base+Addr(seg.Vaddr), 4096)
				return name
			}
		}
	}
	return ""
}

// TLS is where a module's thread-local block lies in every thread.
type TLS struct {
	ModID  uint64
	Offset uint64 // the block begins this far below the thread pointer
	Image  []byte // initial contents, relocated; zeros follow
	Size   uint64
	Align  uint64
}

const tlsMax = 1 << 20

// ReadTLS reads the initial image of m's thread-local block from memory,
// where it is relocated already. ok is false for a module without one.
func (t *Target) ReadTLS(m Module) (tls TLS, ok bool, err error) {
	p, ok := m.Segment(elf.PT_TLS)
	if !ok || p.Memsz == 0 {
		return TLS{}, false, nil
	}
	if p.Memsz > tlsMax || p.Filesz > p.Memsz {
		return TLS{}, false, fmt.Errorf("TLS segment of %s: %w", path.Base(m.Name), ErrMalformed)
	}
	tls = TLS{Image: make([]byte, p.Filesz), Size: p.Memsz, Align: p.Align}
	if err := t.Read(m.Base+Addr(p.Vaddr), tls.Image); err != nil {
		return TLS{}, false, err
	}
	return tls, true, nil
}

func orMissing(err error) error {
	if err == nil {
		return fmt.Errorf("symbol not found: %w", ErrLibc)
	}
	return err
}
