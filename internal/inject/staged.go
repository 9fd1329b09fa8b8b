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

// StageDirs are the directories in the target's root in which the tool stages the
// payload if the target cannot load it from a memfd, because it has no /proc or a policy
// forbids mapping a memfd executable. Each of them may be read-only or noexec.
var StageDirs = []string{"/dev/shm", "/tmp", "/run", "/var/tmp"}

// fileRefused reports whether the loader refused the file itself, not its contents, by
// the messages of glibc's loader (elf/dl-load.c); another directory may then work. It
// returns false if a staged file could not be removed.
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

// ErrNotStaged means that the tool cannot create an executable file in a directory of
// the target.
var ErrNotStaged = errors.New("cannot put an executable file there")

// loadStaged loads the payload from a file in dir, and removes the file.
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

// staged is a file that the tool has created in a directory of the target. The target
// controls the directory's contents, and can pretend to need a file. So the tool does
// all file operations with the rights of the thread that will load it (decision 0019).
type staged struct {
	t    *target.Target
	user privilege.User
	dir  *target.Place
	in   string // path of dir in the target's root
	name string
}

func (s *staged) path() string { return filepath.Join(s.in, s.name) }

// stage writes the file into dir. The filesystem there is the target's choice, and may
// be slow.
func stage(t *target.Target, user privilege.User, dir string, nonce uint64, content []byte) (*staged, error) {
	place, err := t.OpenInRootAs(user, dir)
	if err != nil {
		return nil, err
	}
	s := &staged{t: t, user: user, dir: place, in: dir, name: fmt.Sprintf("%s%016x.so", stagedPrefix(t), nonce)}
	// The target may control the filesystem's server, which then need not answer.
	if kind := place.Filesystem; strings.HasPrefix(kind, "fuse") || kind == "autofs" {
		place.Close()
		return nil, fmt.Errorf("it is on %s", kind)
	}
	made := false
	wait := t.BeginRead(target.Filesystem)
	err = user.Do(func() (err error) {
		made, err = s.write(content)
		return err
	})
	target.EndRead(wait)
	switch {
	case err == nil:
		return s, nil
	case made:
		return nil, errors.Join(err, s.remove())
	}
	place.Close()
	return nil, err
}

// IsNoexec reports whether no program can be run from the directory's filesystem.
func IsNoexec(dir int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(dir, &fs) == nil && fs.Flags&unix.ST_NOEXEC != 0
}

// write creates and writes the file. made reports whether the file exists, complete or
// not.
func (s *staged) write(content []byte) (made bool, err error) {
	// glibc's loader would fail only after it has mapped a part of the file, and would
	// leave that part mapped.
	if IsNoexec(s.dir.FD) {
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

// remove unlinks the file; mappings of it stay valid. If the target's user may not do
// that any more, the tool does it with its own rights: only the tool uses that name.
func (s *staged) remove() error {
	unlink := func() error { return unix.Unlinkat(s.dir.FD, s.name, 0) }
	wait := s.t.BeginRead(target.Filesystem)
	err := s.user.Do(unlink)
	if err != nil {
		err = unlink()
	}
	target.EndRead(wait)
	s.dir.Close()
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &RemainsError{What: "the payload's file " + s.path(), Err: err}
	}
	return nil
}
