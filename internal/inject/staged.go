package inject

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// stageDirs are directories of the target's in which the payload is put where
// a memfd does not do: no /proc there, or a policy against mapping it
// executable. They may be read-only or noexec in turn.
var stageDirs = []string{"/dev/shm", "/tmp", "/run", "/var/tmp"}

// fileRefused tells a refusal of the file itself from one of its contents, by
// the texts of glibc's loader (elf/dl-load.c).
func fileRefused(err error) bool {
	var refused *LoadError
	if !errors.As(err, &refused) {
		return errors.Is(err, ErrNotStaged)
	}
	return strings.Contains(refused.Text, "failed to map segment") ||
		strings.Contains(refused.Text, "cannot open shared object file")
}

// ErrNotStaged: no directory of the target's takes a file that can be executed.
var ErrNotStaged = errors.New("cannot put an executable file there")

// loadStaged loads the payload from a file in dir, which is gone afterwards.
func (s *surgery) loadStaged(ctx context.Context, k *talk, dir string, rep *Report) error {
	f, err := stage(s.t, dir, fmt.Sprintf(".rtl-payload-%016x.so", s.nonce), s.r.Library)
	if err != nil {
		return fmt.Errorf("stage the payload in %s of pid %d: %w: %w", dir, s.t.PID, ErrNotStaged, err)
	}
	defer f.remove()
	name := filepath.Join(dir, f.name)
	if err := s.dlopen(ctx, k, name); err != nil {
		return err
	}
	rep.StagedFile = name
	return nil
}

// staged is a file that we have put into a directory of the target's.
type staged struct {
	dir  int // descriptor
	name string
}

// stage writes the file. The directories between are the target's: its
// symbolic links lead about in its own root, never in ours (openat2(2)).
func stage(t *target.Target, dir, name string, content []byte) (*staged, error) {
	root, err := unix.Open(t.Root(), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, dir, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	s := &staged{dir: fd, name: name}
	// glibc's loader would notice only when it has mapped half of the file, and leave that.
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err == nil && fs.Flags&unix.ST_NOEXEC != 0 {
		_ = unix.Close(fd)
		return nil, errors.New("it is mounted noexec")
	}
	out, err := unix.Openat(fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o700)
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(out), name)
	_, err = f.Write(content)
	if err == nil && t.UID != os.Geteuid() {
		err = f.Chown(t.UID, -1)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

func (s *staged) remove() {
	_ = unix.Unlinkat(s.dir, s.name, 0)
	_ = unix.Close(s.dir)
}
