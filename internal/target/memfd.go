package target

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// MemfdMapping is a part of a memfd that the target has mapped.
type MemfdMapping struct {
	Name       string
	Start, End Addr
	Offset     uint64
	Dev        string
	Inode      uint64
}

// FindMemfd lists the shared mappings of memfds of that name.
func (t *Target) FindMemfd(name string) ([]MemfdMapping, error) {
	maps, err := t.Maps()
	if err != nil {
		return nil, err
	}
	return findMemfd(maps, name), nil
}

func findMemfd(maps []Map, name string) []MemfdMapping {
	var found []MemfdMapping
	for _, m := range maps {
		// A memfd is always "deleted"; a file of that name need not be.
		if m.Path == "/memfd:"+name && m.Deleted && len(m.Perms) == 4 && m.Perms[3] == 's' {
			found = append(found, MemfdMapping{name, m.Start, m.End, m.Offset, m.Dev, m.Inode})
		}
	}
	return found
}

// OpenMemfd opens the file behind a mapping for reading and writing: through
// the mapping itself, which takes CAP_CHECKPOINT_RESTORE, or through whatever
// descriptor the target still has for it. It refuses any other inode, and a
// file that could still be truncated, which would kill its reader by SIGBUS.
func (t *Target) OpenMemfd(m MemfdMapping) (*os.File, error) {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/map_files/%x-%x", t.PID, uint64(m.Start), uint64(m.End)), os.O_RDWR, 0)
	if err != nil {
		f, err = t.openByInode(m)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s of pid %d: %w", m.Name, t.PID, err)
	}
	if !sameInode(f, m.Inode) {
		err = fmt.Errorf("another file lies there: %w", ErrMalformed)
	} else {
		err = CheckSeals(f)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s of pid %d: %w", m.Name, t.PID, err)
	}
	return f, nil
}

func (t *Target) openByInode(m MemfdMapping) (*os.File, error) {
	links, err := filepath.Glob(t.taskPath("fd/*"))
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		if name, err := os.Readlink(link); err != nil || !strings.HasPrefix(name, "/memfd:"+m.Name) {
			continue
		}
		f, err := os.OpenFile(link, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if sameInode(f, m.Inode) {
			return f, nil
		}
		_ = f.Close()
	}
	return nil, fs.ErrNotExist
}

func sameInode(f *os.File, inode uint64) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Ino == inode
}

// CheckSeals refuses a file that can change its size (memfd_create(2)).
func CheckSeals(f *os.File) error {
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("read seals: %w", err)
	}
	const need = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	if seals&need != need {
		return fmt.Errorf("not sealed against resizing (seals %#x): %w", seals, ErrMalformed)
	}
	return nil
}

// CheckMemfd refuses a file that is no memfd: only shared memory has seals, and
// only a memfd has no name from the beginning.
func CheckMemfd(f *os.File) error {
	if _, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0); err != nil {
		return fmt.Errorf("no memfd: %w", ErrMalformed)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Nlink != 0 {
		return fmt.Errorf("a file with a name: %w", ErrMalformed)
	}
	return nil
}
