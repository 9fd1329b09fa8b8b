package target

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// Module is one object in the link map of the target's dynamic loader.
type Module struct {
	*Image
	Name    string // the loader's name for it; "" for the program itself
	LinkMap Addr   // its struct link_map
}

const modulesMax = 4096

// Modules walks the loader's list of objects (<link.h>, struct r_debug). It
// fails with ErrLoading while the loader changes the list.
func (t *Target) Modules(maps []Map) ([]Module, error) {
	ld, err := t.loader(maps)
	if err != nil {
		return nil, err
	}
	debug, ok, err := ld.Symbol("_r_debug")
	if err != nil || !ok {
		return nil, fmt.Errorf("_r_debug of pid %d: %w", t.PID, orMissing(err))
	}
	objects, err := linkMap(t, debug)
	if err != nil {
		return nil, fmt.Errorf("link map of pid %d: %w", t.PID, err)
	}
	modules := make([]Module, len(objects))
	heads := fileHeads(maps)
	for i, o := range objects {
		im, err := t.imageAt(maps, heads, o.bias, o.dynamic)
		if err != nil {
			im = &Image{Base: o.bias} // no headers, hence no symbols and no TLS
		}
		modules[i] = Module{Image: im, Name: o.name, LinkMap: o.at}
	}
	return modules, nil
}

// object is one entry of the loader's list.
type object struct {
	at, bias, dynamic Addr
	name              string
}

// debugState is the offset of r_state in struct r_debug.
const debugState = 24

// linkMap walks the list of the struct r_debug at debug. It fails with ErrLoading if
// the loader was changing the list before or after the walk.
func linkMap(mem io.ReaderAt, debug Addr) ([]object, error) {
	var r struct {
		Version, _ uint32
		Map, Brk   uint64
		State, _   uint32
	}
	if err := readStruct(mem, debug, &r); err != nil {
		return nil, fmt.Errorf("_r_debug: %w", err)
	}
	if r.State != 0 { // RT_CONSISTENT
		return nil, ErrLoading
	}
	objects, err := walk(mem, Addr(r.Map))
	if rerr := readStruct(mem, debug+debugState, &r.State); rerr != nil {
		return nil, fmt.Errorf("_r_debug: %w", rerr)
	}
	if r.State != 0 {
		return nil, ErrLoading
	}
	return objects, err
}

// Loaded is one entry of a debugger's list of loaded objects.
type Loaded struct {
	Bias Addr
	Name string
}

// LoadedObjects walks the list of the struct r_debug at an address: the dynamic loader's, or the one
// in which the HSA runtime lists code objects (_amdgpu_r_debug). It fails with ErrLoading while the list
// changes.
func LoadedObjects(mem io.ReaderAt, debug Addr) ([]Loaded, error) {
	objects, err := linkMap(mem, debug)
	loaded := make([]Loaded, len(objects))
	for i, o := range objects {
		loaded[i] = Loaded{o.bias, o.name}
	}
	return loaded, err
}

// walk lists the objects from first on. A hostile list may loop or point anywhere.
func walk(mem io.ReaderAt, first Addr) ([]object, error) {
	var objects []object
	for at := first; at != 0; {
		if len(objects) == modulesMax {
			return nil, fmt.Errorf("more than %d libraries: %w", modulesMax, ErrMalformed)
		}
		var l struct{ Addr, Name, Dynamic, Next, Prev uint64 }
		if err := readStruct(mem, at, &l); err != nil {
			return nil, err
		}
		name, err := cString(mem, Addr(l.Name), 4096)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object{at: at, bias: Addr(l.Addr), dynamic: Addr(l.Dynamic), name: name})
		at = Addr(l.Next)
	}
	return objects, nil
}

// file identifies the file of a mapping.
type file struct {
	dev, path string
	inode     uint64
}

// headsMax limits the mappings of a file's beginning that are checked: there is one for
// each time that the file was loaded.
const headsMax = 16

// fileHeads lists the addresses at which the beginnings of files are mapped.
func fileHeads(maps []Map) map[file][]Addr {
	heads := make(map[file][]Addr)
	for _, m := range maps {
		f := file{m.Dev, m.Path, m.Inode}
		if m.Offset == 0 && len(heads[f]) < headsMax {
			heads[f] = append(heads[f], m.Start)
		}
	}
	return heads
}

// imageAt finds the ELF headers of the object with that load bias: they are at the start
// of the lowest mapping of the file that contains its dynamic section.
func (t *Target) imageAt(maps []Map, heads map[file][]Addr, bias, dynamic Addr) (*Image, error) {
	home, ok := FindMap(maps, dynamic)
	if !ok {
		return nil, fmt.Errorf("dynamic section at %#x is not mapped: %w", dynamic, ErrMalformed)
	}
	if bias != 0 {
		if im, err := OpenImage(t, bias); err == nil {
			return im, nil
		}
	}
	for _, head := range heads[file{home.Dev, home.Path, home.Inode}] {
		if im, err := OpenImage(t, head); err == nil && im.Base == bias {
			return im, nil
		}
	}
	return nil, fmt.Errorf("no ELF header with load bias %#x: %w", bias, ErrMalformed)
}

// loader returns the image of the dynamic loader. It fails with ErrMusl for musl's
// loader, and with ErrStatic for a program without one.
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

// noLoader returns the reason why there is no glibc loader. It reads the loader's path
// from the program (PT_INTERP): a distribution may install musl's under another name.
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

// interpreter returns the path in the program's PT_INTERP; "" if there is none.
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
				name, _ := cString(t, im.Base+Addr(seg.Vaddr), 4096)
				return name
			}
		}
	}
	return ""
}

// TLS describes a module's thread-local block.
type TLS struct {
	Image []byte // initial contents, relocated; zeros follow
	Size  uint64
	Align uint64
}

const tlsMax = 1 << 20

// ReadTLS reads the initial image of m's thread-local block from memory, where the
// loader has already relocated it. ok is false for a module without such a block.
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
