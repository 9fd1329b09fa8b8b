package inject

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// libc describes the target's C library: addresses of functions and instructions, and
// the layout of its threads.
type libc struct {
	chain
	funcs       map[string]target.Addr
	pthreadSize uint64 // sizeof(struct pthread)
	tidOffset   uint64 // of tid in struct pthread
	tlsOffset   uint64 // of l_tls_offset in struct link_map
	tlsModID    uint64 // of l_tls_modid
	rseqOffset  int64  // of struct rseq, relative to the thread pointer
	rseqKnown   bool   // glibc registers rseq (2.35)
	modules     []target.Module
}

// required are the functions that the bootstrap calls. Before glibc 2.34 they are in
// three libraries.
var required = []string{
	"pthread_create", "pthread_attr_init", "pthread_attr_setdetachstate",
	"pthread_getspecific", "pthread_setspecific", "dlopen", "dlsym", "dlerror", "munmap",
}

// optional are functions that the bootstrap calls if they exist: __ctype_init makes
// isalpha() and similar functions safe in a thread that libc did not start, the others
// end such a thread properly.
var optional = []string{"__ctype_init", "__pthread_keys", "__call_tls_dtors"}

func findLibc(t *target.Target, maps []target.Map) (*libc, error) {
	modules, err := t.Modules(maps)
	if err != nil {
		return nil, err
	}
	l := &libc{modules: modules, funcs: make(map[string]target.Addr)}
	var libs []target.Module
	for _, m := range modules {
		if isLibc(m.Name) {
			libs = append(libs, m)
		}
	}
	if len(libs) == 0 || len(libs) > libsMax {
		return nil, fmt.Errorf("pid %d has %d libraries with names of glibc's libraries: %w", t.PID, len(libs), target.ErrLibc)
	}
	for _, name := range append(required, optional...) {
		if l.funcs[name], err = find(libs, name); err != nil {
			return nil, err
		}
	}
	for _, name := range required {
		if l.funcs[name] == 0 {
			return nil, fmt.Errorf("no %s in the C library of pid %d: %w", name, t.PID, target.ErrLibc)
		}
	}
	if err := l.layout(t, maps, libs); err != nil {
		return nil, err
	}
	return l, l.gadgets(t, maps, libs)
}

// libsMax limits the libraries: libc.so, libpthread.so and libdl.so, and a further
// copy of each with dlmopen(3).
const libsMax = 16

// isLibc reports whether name is one of glibc's libraries, as a soname or as the file
// name of an older release.
func isLibc(name string) bool {
	base := path.Base(name)
	for _, lib := range []string{"libc", "libpthread", "libdl"} {
		if strings.HasPrefix(base, lib+".so.") || strings.HasPrefix(base, lib+"-2.") {
			return true
		}
	}
	return false
}

func find(libs []target.Module, name string) (target.Addr, error) {
	for _, m := range libs {
		a, ok, err := m.Symbol(name)
		if err != nil {
			return 0, fmt.Errorf("look up %s in %s: %w", name, path.Base(m.Name), err)
		}
		if ok {
			return a, nil
		}
	}
	return 0, nil
}

// layout reads the descriptors that glibc has for libthread_db: each is three 32-bit
// words, the size in bits, the count, and the offset in bytes.
func (l *libc) layout(t *target.Target, maps []target.Map, libs []target.Module) error {
	for _, d := range []struct {
		name string
		to   *uint64
	}{
		{"_thread_db_pthread_tid", &l.tidOffset},
		{"_thread_db_link_map_l_tls_offset", &l.tlsOffset},
		{"_thread_db_link_map_l_tls_modid", &l.tlsModID},
	} {
		a, err := descriptor(t, maps, libs, d.name)
		if err != nil || a == 0 {
			return fmt.Errorf("no %s in the C library of pid %d: %w", d.name, t.PID, orLibc(err))
		}
		offset, err := t.Uint32(a + 8)
		if err != nil || offset > 1<<16 {
			return fmt.Errorf("%s of pid %d is %#x: %w", d.name, t.PID, offset, orLibc(err))
		}
		*d.to = uint64(offset)
	}
	a, err := descriptor(t, maps, libs, "_thread_db_sizeof_pthread")
	if err != nil || a == 0 {
		return fmt.Errorf("size of struct pthread in pid %d: %w", t.PID, orLibc(err))
	}
	size, err := t.Uint32(a)
	if err != nil || size < 704 || size > 1<<16 {
		return fmt.Errorf("size of struct pthread in pid %d is %d: %w", t.PID, size, orLibc(err))
	}
	l.pthreadSize = uint64(size)
	return l.rseq(t)
}

// descriptor finds a descriptor for libthread_db. Before glibc 2.34 they are only in the
// symbol table of libpthread's file, which distributions do not strip for that reason.
func descriptor(t *target.Target, maps []target.Map, libs []target.Module, name string) (target.Addr, error) {
	if a, err := find(libs, name); err != nil || a != 0 {
		return a, err
	}
	for _, m := range libs {
		if !strings.HasPrefix(path.Base(m.Name), "libpthread") {
			continue
		}
		if a, ok, err := t.FileSymbol(maps, m, name); err != nil || ok {
			return a, err
		}
	}
	return 0, nil
}

// rseq finds the offset at which glibc registers struct rseq, from 2.35 on.
func (l *libc) rseq(t *target.Target) error {
	a, err := find(l.modules, "__rseq_offset")
	if err != nil || a == 0 {
		return nil
	}
	v, err := t.Uint64(a)
	if err != nil {
		return err
	}
	l.rseqOffset, l.rseqKnown = int64(v), true
	return nil
}

var (
	syscallRet = []byte{0x0f, 0x05, 0xc3}
	restoreRT  = []byte{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}
)

// textMax limits the size of a mapping to search: libc's code is less than 2 MiB.
const textMax = 16 << 20

// gadgets finds the two instruction sequences in libc's text, in memory.
func (l *libc) gadgets(t *target.Target, maps []target.Map, libs []target.Module) error {
	for _, home := range libs {
		first, ok := target.FindMap(maps, home.Base)
		if !ok {
			continue
		}
		for _, m := range maps {
			if m.Perms != "r-xp" || m.Inode != first.Inode || m.Dev != first.Dev || m.End-m.Start > textMax {
				continue
			}
			if err := l.search(t, m); err != nil {
				return fmt.Errorf("text of %s: %w", path.Base(home.Name), err)
			}
			if l.syscallRet != 0 && l.restoreRT != 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("no `syscall; ret` or signal return in the C library of pid %d: %w", t.PID, target.ErrLibc)
}

func (l *libc) search(t *target.Target, m target.Map) error {
	text := make([]byte, m.End-m.Start)
	if err := t.Read(m.Start, text); err != nil {
		return err
	}
	if i := bytes.Index(text, syscallRet); i >= 0 && l.syscallRet == 0 {
		l.syscallRet = m.Start + target.Addr(i)
	}
	if i := bytes.Index(text, restoreRT); i >= 0 && l.restoreRT == 0 {
		l.restoreRT = m.Start + target.Addr(i)
	}
	return nil
}

// threadBlock is a module's static thread-local block.
type threadBlock struct {
	modID  uint64
	offset uint64 // below the thread pointer
	align  uint64
	image  []byte
}

// threadBlocks reads the static TLS block of every module. libc's block alone is not
// enough: jemalloc has its state in such a block, and a thread without it crashes the
// target at once.
func (l *libc) threadBlocks(t *target.Target) ([]threadBlock, error) {
	var blocks []threadBlock
	total := uint64(0)
	for _, m := range l.modules {
		var w [8]byte
		if err := t.Read(m.LinkMap+target.Addr(l.tlsOffset), w[:]); err != nil {
			return nil, err
		}
		offset := int64(binary.LittleEndian.Uint64(w[:]))
		// 0: no TLS, or not decided yet; negative: dynamic for ever.
		// <sysdeps/generic/ldsodefs.h>: NO_TLS_OFFSET, FORCED_DYNAMIC_TLS_OFFSET
		if offset <= 0 {
			continue
		}
		if offset > staticTLSMax {
			return nil, fmt.Errorf("TLS block of %s lies %d bytes below the thread pointer: %w",
				path.Base(m.Name), offset, target.ErrLibc)
		}
		id, err := t.Uint64(m.LinkMap + target.Addr(l.tlsModID))
		if err != nil {
			return nil, err
		}
		tls, ok, err := t.ReadTLS(m)
		if err != nil || !ok || tls.Size > uint64(offset) || tls.Align > pageBytes || id == 0 || id >= dtvSlots {
			return nil, fmt.Errorf("TLS block of %s: %w", path.Base(m.Name), orLibc(err))
		}
		if total += tls.Size; total > staticTLSMax {
			return nil, fmt.Errorf("TLS blocks of pid %d overlap: %w", t.PID, target.ErrLibc)
		}
		blocks = append(blocks, threadBlock{modID: id, offset: uint64(offset), align: tls.Align, image: tls.Image})
	}
	return blocks, nil
}

func orLibc(err error) error {
	if err == nil {
		return target.ErrLibc
	}
	return err
}
