package target

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Observed reads a process's memory, mappings and files for as long as it is recorded, also after the tool has dropped
// its privileges. Unlike Target it does not limit how much is read in all: who uses it limits what one look costs. A
// read that hangs does not count as a stall of the session (Beside). One goroutine at a time may use it.
type Observed struct {
	t    *Target
	maps *os.File
	root int // O_PATH: the process's root directory, also after its end
}

// Observe opens what Observed needs.
func (t *Target) Observe() (*Observed, error) {
	o := &Observed{t: t.Beside(), root: -1}
	var err error
	if o.maps, err = os.Open(t.path("maps")); err != nil {
		return nil, t.explain("read the maps", err)
	}
	if o.root, err = unix.Open(t.Root(), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		o.Close()
		return nil, t.explain("look at the root directory", err)
	}
	return o, nil
}

// Close closes the descriptors.
func (o *Observed) Close() {
	_ = o.maps.Close()
	if o.root >= 0 {
		_ = unix.Close(o.root)
	}
}

// ReadAt reads the process's memory.
func (o *Observed) ReadAt(b []byte, off int64) (int, error) {
	return o.t.readAt(b, Addr(off))
}

// Maps reads the current mappings; none: the process has ended, or its first thread has.
func (o *Observed) Maps() ([]Map, error) {
	wait := o.t.BeginRead(Memory)
	defer EndRead(wait)
	if _, err := o.maps.Seek(0, io.SeekStart); err != nil {
		return nil, o.t.explain("read the maps", err)
	}
	maps, err := parseMaps(io.LimitReader(o.maps, math.MaxInt32))
	if err != nil && isESRCH(err) {
		return nil, fmt.Errorf("maps of pid %d: %w", o.t.PID, ErrGone)
	}
	return maps, err
}

// OpenFile opens the regular file that was mapped in m: the mapped one while the process lives, else the one with the same
// inode in its root directory.
func (o *Observed) OpenFile(m Map) (*os.File, error) {
	wait := o.t.BeginRead(Filesystem)
	defer EndRead(wait)
	if f, err := o.t.openMapped([]Map{m}, m.Start); err == nil {
		return f, nil
	} else if m.Inode == 0 || m.Path == "" {
		return nil, err
	}
	fd, err := o.lookUp(m.Path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return openRegular(fd, m.Path, func(st *unix.Statx_t) bool { return st.Ino == m.Inode })
}

// OpenPath opens a regular file by its path in the process's root directory.
func (o *Observed) OpenPath(path string) (*os.File, error) {
	wait := o.t.BeginRead(Filesystem)
	defer EndRead(wait)
	fd, err := o.lookUp(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return openRegular(fd, path, func(*unix.Statx_t) bool { return true })
}

// lookUp resolves a path as OpenInRoot does.
func (o *Observed) lookUp(path string) (int, error) {
	if path == "" || path[0] != '/' {
		return -1, errors.New("not a path")
	}
	return unix.Openat2(o.root, path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
}
