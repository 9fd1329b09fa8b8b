package tracedb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
)

var (
	// ErrExists means that the file already exists.
	ErrExists = errors.New("file exists")
	// ErrUnwritable means that the file cannot be created or written there.
	ErrUnwritable = errors.New("not writable")
	// ErrNoSpace means that the filesystem is full or nearly full.
	ErrNoSpace = errors.New("no space left")
)

// Place is a checked location for a trace. The check happens before the target is
// touched, so that a recording does not end in "permission denied".
type Place struct {
	Path       string
	FreeBytes  uint64
	Filesystem string // named only when it is a network filesystem
	Extends    bool   // a trace exists there, and gets further sessions
	Replaces   string // the file that the trace replaces when it is complete; "": none
}

// networkFilesystems are those on which file locks may be missing or slow
// (statfs(2), linux/magic.h).
var networkFilesystems = map[int64]string{
	0x6969:     "nfs",
	0xff534d42: "cifs",
	0xfe534d42: "smb2",
	0x517b:     "smb",
	0x01021997: "9p",
	0x0bd00bd0: "lustre",
	0x00c36400: "ceph",
	0x47504653: "gpfs",
	0x19830326: "beegfs",
	0x65735546: "fuse",
}

// Check checks whether a trace of up to needBytes can be created at path. It creates
// nothing.
func Check(path string, needBytes uint64) (Place, error) {
	if _, err := os.Lstat(path); err == nil {
		return Place{}, fmt.Errorf("%s: %w", path, ErrExists)
	} else if !errors.Is(err, os.ErrNotExist) {
		return Place{}, fmt.Errorf("%w: %w", ErrUnwritable, err)
	}
	// A journal of an earlier trace would be rolled back into this one.
	if _, err := os.Lstat(path + "-journal"); err == nil {
		return Place{}, fmt.Errorf("%s-journal: %w", path, ErrExists)
	}
	return placeIn(path, needBytes)
}

// placeIn checks the directory of a trace.
func placeIn(path string, needBytes uint64) (Place, error) {
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	if err != nil {
		return Place{}, fmt.Errorf("%w: %w", ErrUnwritable, err)
	}
	if !info.IsDir() {
		return Place{}, fmt.Errorf("%s: %w: not a directory", dir, ErrUnwritable)
	}
	if err := writable(dir, unix.W_OK|unix.X_OK); err != nil {
		return Place{}, err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return Place{}, fmt.Errorf("statfs %s: %w", dir, err)
	}
	place := Place{
		Path:       path,
		FreeBytes:  fs.Bavail * uint64(fs.Bsize),
		Filesystem: networkFilesystems[fs.Type],
	}
	if place.FreeBytes < needBytes {
		return place, fmt.Errorf("%s: %w: %s free, %s wanted", dir, ErrNoSpace, humanize.Bytes(place.FreeBytes), humanize.Bytes(needBytes))
	}
	return place, nil
}

// writable reports whether the effective user has this access to the directory or file.
func writable(path string, mode uint32) error {
	if err := unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("%s: %w: %w", path, ErrUnwritable, err)
	}
	return nil
}

// MakeFile creates the empty file, owned by the user who called sudo, if any. It follows no
// link and opens no existing file.
func (p Place) MakeFile() (*os.File, error) {
	file, err := os.OpenFile(p.Path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%s: %w", p.Path, ErrExists)
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnwritable, err)
	}
	if uid, gid, ok := userBehindSudo(); ok {
		if err := file.Chown(uid, gid); err != nil {
			return nil, errors.Join(fmt.Errorf("give %s to the user behind sudo: %w", p.Path, err),
				file.Close(), os.Remove(p.Path))
		}
	}
	return file, nil
}

func userBehindSudo() (uid, gid int, ok bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	uid, uidErr := strconv.Atoi(os.Getenv("SUDO_UID"))
	gid, gidErr := strconv.Atoi(os.Getenv("SUDO_GID"))
	return uid, gid, uidErr == nil && gidErr == nil && uid >= 0 && gid >= 0
}

// MakeFolder makes a folder, which belongs to the user who called sudo, if any.
func MakeFolder(path string) error {
	if err := os.Mkdir(path, 0o755); err != nil {
		return fmt.Errorf("%w: %w", ErrUnwritable, err)
	}
	if uid, gid, ok := userBehindSudo(); ok {
		if err := os.Lchown(path, uid, gid); err != nil {
			return errors.Join(fmt.Errorf("give %s to the user behind sudo: %w", path, err), os.Remove(path))
		}
	}
	return nil
}
