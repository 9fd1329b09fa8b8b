package target

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

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
// descriptor the target still has for it. Mapping and descriptor may be another
// file's by now: it refuses all but the memfd that was seen, and one that could
// still be truncated, which would kill its reader by SIGBUS.
func (t *Target) OpenMemfd(m MemfdMapping) (*os.File, error) {
	same := func(st *unix.Statx_t) bool { return st.Ino == m.Inode }
	f, err := t.openMemfd(t.path(fmt.Sprintf("map_files/%x-%x", uint64(m.Start), uint64(m.End))), m.Name, os.O_RDWR, same)
	if err != nil {
		f, err = t.openByInode(m, same)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s of pid %d: %w", m.Name, t.PID, err)
	}
	if _, err := SealedSize(f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s of pid %d: %w", m.Name, t.PID, err)
	}
	return f, nil
}

// OpenMemfdOf opens what a thread of the target has as descriptor fd, if it is a
// memfd of that name that this thread has made: one of somebody else's could be open
// there, for reading only, or one of the application's, if the thread has closed its own.
func (t *Target) OpenMemfdOf(tid, fd int, name string, flags int) (*os.File, error) {
	status, err := t.ThreadStatus(tid)
	if same := t.CheckIdentity(); same != nil {
		return nil, same // the thread went with its program
	}
	if err != nil {
		return nil, err
	}
	return t.openMemfd(t.threadPath(tid, fmt.Sprintf("fd/%d", fd)), name, flags, func(st *unix.Statx_t) bool {
		return int(st.Uid) == status.UID
	})
}

func (t *Target) openByInode(m MemfdMapping, same func(*unix.Statx_t) bool) (*os.File, error) {
	fds, err := t.descriptors()
	if err != nil {
		return nil, err
	}
	for _, fd := range fds {
		link := t.taskPath("fd/" + fd)
		if name, err := os.Readlink(link); err != nil || !strings.HasPrefix(name, "/memfd:"+m.Name) {
			continue
		}
		if f, err := t.openMemfd(link, m.Name, os.O_RDWR, same); err == nil {
			return f, nil
		}
	}
	return nil, fs.ErrNotExist
}

// openMemfd opens what lies behind path, a link of /proc's, if it is a memfd
// that fits. A descriptor that only names the file comes first: opening it for
// good may block (a FIFO, FUSE), act (a device), or be what root may do and the
// target may not. What was looked at is what is then opened.
func (t *Target) openMemfd(path, name string, flags int, fits func(*unix.Statx_t) bool) (*os.File, error) {
	mine := t.BeginRead(Memory) // map_files is looked up there
	handle, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	EndRead(mine)
	if err != nil {
		return nil, err
	}
	defer unix.Close(handle)
	self := fmt.Sprintf("/proc/self/fd/%d", handle)
	var st unix.Statx_t
	// Without a question to the filesystem: a FUSE server need not answer it.
	const how = unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(handle, "", how, unix.STATX_BASIC_STATS, &st); err != nil {
		return nil, err
	}
	home, err := memfdDevice()
	if err != nil {
		return nil, err
	}
	link, err := os.Readlink(self)
	if err != nil {
		return nil, err
	}
	if (device{st.Dev_major, st.Dev_minor}) != home || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 0 ||
		link != "/memfd:"+name+" (deleted)" || !fits(&st) {
		return nil, fmt.Errorf("another file lies there: %w", ErrMalformed)
	}
	fd, err := unix.Open(self, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "memfd"), nil
}

type device struct{ major, minor uint32 }

// memfdDevice is where the kernel keeps memfds: a mount of its own, in which
// nobody can make any other file. It is learnt from one of ours.
var memfdDevice = sync.OnceValues(func() (device, error) {
	fd, err := unix.MemfdCreate("rtl-attach", unix.MFD_CLOEXEC)
	if err != nil {
		return device{}, fmt.Errorf("make a memfd: %w", err)
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &st)
	return device{st.Dev_major, st.Dev_minor}, err
})

// SealedSize is the size of a file that cannot change it any more
// (memfd_create(2)). Mapped beyond its end, a file kills its reader.
func SealedSize(f *os.File) (int64, error) {
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil {
		return 0, fmt.Errorf("read seals: %w", err)
	}
	const need = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	if seals&need != need {
		return 0, fmt.Errorf("not sealed against resizing (seals %#x): %w", seals, ErrMalformed)
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
