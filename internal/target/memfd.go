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

// FindMemfd lists the target's shared mappings of memfds with that name.
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

// OpenMemfd opens the file of a mapping for reading and writing: through the mapping
// itself, which needs CAP_CHECKPOINT_RESTORE, or through a descriptor that the target
// still has for it. Both may refer to another file by now, so OpenMemfd refuses every
// file but the memfd in m. It also refuses a memfd that is not sealed against
// truncation, which would kill its reader by SIGBUS.
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

// OpenMemfdOf opens descriptor fd of a thread of the target, if it is a memfd with that
// name that this thread's user has created. Otherwise fd may be a memfd of another user,
// open for reading only, or a file of the application, if the thread has closed its own.
func (t *Target) OpenMemfdOf(tid, fd int, name string, flags int) (*os.File, error) {
	status, err := t.ThreadStatus(tid)
	if same := t.CheckIdentity(); same != nil {
		return nil, same // not only the thread has ended
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

// openMemfd opens the file of path, a link in /proc, if it is a memfd for which fits
// returns true. It opens an O_PATH descriptor first and checks that: a real open may
// block (a FIFO, FUSE), have an effect (a device), or succeed for root where the target
// has no permission. It then opens the very file that it has checked.
func (t *Target) openMemfd(path, name string, flags int, fits func(*unix.Statx_t) bool) (*os.File, error) {
	wait := t.BeginRead(Memory) // a lookup in map_files takes the lock on the target's memory
	handle, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	EndRead(wait)
	if err != nil {
		return nil, err
	}
	defer unix.Close(handle)
	self := fmt.Sprintf("/proc/self/fd/%d", handle)
	var st unix.Statx_t
	// DONT_SYNC: no request to the filesystem, whose FUSE server need not answer.
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
		return nil, fmt.Errorf("it is another file: %w", ErrMalformed)
	}
	fd, err := unix.Open(self, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "memfd"), nil
}

type device struct{ major, minor uint32 }

// memfdDevice returns the device of the kernel's internal mount for memfds, on which no
// process can create another kind of file. It creates a memfd to find out.
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

// SealedSize returns the size of a memfd, and fails unless seals fix the size
// (memfd_create(2)): reading a mapping beyond the end of its file raises SIGBUS.
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
