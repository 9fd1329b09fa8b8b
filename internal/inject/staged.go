package inject

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/privilege"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// stageDirs are directories of the target's in which the payload is put where
// a memfd does not do: no /proc there, or a policy against mapping it
// executable. They may be read-only or noexec in turn.
var stageDirs = []string{"/dev/shm", "/tmp", "/run", "/var/tmp"}

// fileRefused tells a refusal of the file itself from one of its contents, by
// the texts of glibc's loader (elf/dl-load.c). Where one could not be taken away,
// no other is tried.
func fileRefused(err error) bool {
	var refused *LoadError
	if remains := (*RemainsError)(nil); errors.As(err, &remains) {
		return false
	}
	if !errors.As(err, &refused) {
		return errors.Is(err, ErrNotStaged)
	}
	return strings.Contains(refused.Text, "failed to map segment") ||
		strings.Contains(refused.Text, "cannot open shared object file")
}

// ErrNotStaged: no directory of the target's takes a file that can be executed.
var ErrNotStaged = errors.New("cannot put an executable file there")

// loadStaged loads the payload from a file in dir, which is gone afterwards.
func (s *injection) loadStaged(ctx context.Context, k *bootChannel, dir string, rep *Report) error {
	user, err := s.t.ThreadUser(k.tid)
	if err != nil {
		return err
	}
	f, err := stage(s.t, user, dir, s.nonce, s.r.Library)
	if err != nil {
		return fmt.Errorf("stage the payload in %s of pid %d: %w: %w", dir, s.t.PID, ErrNotStaged, err)
	}
	name := f.path()
	if err = at(PointStaged); err == nil {
		err = s.dlopen(ctx, k, name)
	}
	if err := errors.Join(err, f.remove()); err != nil {
		return err
	}
	rep.StagedFile = name
	return nil
}

// staged is a file that we have put into a directory of the target's. What lies
// there is the target's choice, and that it needs a file at all is its word: all is
// done with the rights of the thread that will load it (decision 0019).
type staged struct {
	t    *target.Target
	user privilege.User
	dir  *target.Place
	in   string // its path
	name string
}

func (s *staged) path() string { return filepath.Join(s.in, s.name) }

// stage writes the file: in a directory of the target's, on whatever it has
// mounted there, which may take its time.
func stage(t *target.Target, user privilege.User, dir string, nonce uint64, content []byte) (*staged, error) {
	place, err := t.OpenInRootAs(user, dir)
	if err != nil {
		return nil, err
	}
	s := &staged{t: t, user: user, dir: place, in: dir, name: fmt.Sprintf("%s%016x.so", stagedPrefix(t), nonce)}
	// A server of the target's need not answer; there are other directories.
	if kind := place.Filesystem; strings.HasPrefix(kind, "fuse") || kind == "autofs" {
		place.Close()
		return nil, fmt.Errorf("it lies on %s", kind)
	}
	made := false
	mine := t.BeginRead(target.Filesystem)
	err = user.Do(func() (err error) {
		made, err = s.write(content)
		return err
	})
	target.EndRead(mine)
	switch {
	case err == nil:
		return s, nil
	case made:
		return nil, errors.Join(err, s.remove())
	}
	place.Close()
	return nil, err
}

// write says also whether there is a file, whole or not.
func (s *staged) write(content []byte) (made bool, err error) {
	// glibc's loader would notice only when it has mapped half of the file, and leave that.
	var fs unix.Statfs_t
	if err := unix.Fstatfs(s.dir.FD, &fs); err == nil && fs.Flags&unix.ST_NOEXEC != 0 {
		return false, errors.New("it is mounted noexec")
	}
	removeLeftovers(s.dir.FD, stagedPrefix(s.t), s.user.UID)
	fd, err := unix.Openat(s.dir.FD, s.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o700)
	if err != nil {
		return false, err
	}
	f := os.NewFile(uintptr(fd), s.name)
	_, err = f.Write(content)
	return true, errors.Join(err, f.Close())
}

// remove takes the file away again; whoever has it mapped keeps it. Where the target
// may no longer do so, we do: the name is one that only we give.
func (s *staged) remove() error {
	unlink := func() error { return unix.Unlinkat(s.dir.FD, s.name, 0) }
	mine := s.t.BeginRead(target.Filesystem)
	err := s.user.Do(unlink)
	if err != nil {
		err = unlink()
	}
	target.EndRead(mine)
	s.dir.Close()
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &RemainsError{What: "the payload's file " + s.path(), Err: err}
	}
	return nil
}
