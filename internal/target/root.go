package target

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/privilege"
)

// Place is a file or directory in the target's root, as an O_PATH descriptor, which does
// not open the file itself.
type Place struct {
	FD         int
	Filesystem string // the kernel's name of its type; "": the target does not see the mount
}

// Close closes the descriptor.
func (p *Place) Close() { _ = unix.Close(p.FD) }

// OpenInRoot resolves path in the target's root directory. Symbolic links are resolved
// in that root, never in the tool's (openat2(2)). Directories on the path may be on
// FUSE, whose server must answer, so the walk is registered with BeginRead. The final
// component causes no request and no automount (autofs(5)).
func (t *Target) OpenInRoot(path string) (*Place, error) {
	return t.openInRoot(path, func(walk func() error) error { return walk() })
}

// OpenInRootAs is OpenInRoot with the permissions of user u.
func (t *Target) OpenInRootAs(u privilege.User, path string) (*Place, error) {
	return t.openInRoot(path, u.Do)
}

func (t *Target) openInRoot(path string, do func(walk func() error) error) (*Place, error) {
	root, err := unix.Open(t.Root(), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, t.explain("look at the root directory", err)
	}
	defer unix.Close(root)
	p := &Place{}
	wait := t.BeginRead(Filesystem)
	err = do(func() (err error) {
		p.FD, err = unix.Openat2(root, path, &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
		})
		return err
	})
	EndRead(wait)
	if err != nil {
		return nil, err
	}
	if p.Filesystem, err = t.filesystem(p.FD); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// filesystem returns the type of the mount that fd is on, from the target's list of
// mounts: fstatfs(2) would send a request to the filesystem.
func (t *Target) filesystem(fd int) (string, error) {
	info, err := readProc(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return "", err
	}
	_, after, _ := strings.Cut(string(info), "mnt_id:")
	id, _, _ := strings.Cut(strings.TrimSpace(after), "\n")
	f, err := os.Open(t.taskPath("mountinfo"))
	if err != nil {
		return "", t.explain("read its mounts", err)
	}
	defer f.Close()
	return mountType(io.LimitReader(f, mapsBytesMax), id)
}

// mountType looks up the type of a mount in a mountinfo file (proc_pid_mountinfo(5)); ""
// if it is not listed. The kernel escapes blanks in names that the target controls.
func mountType(mounts io.Reader, id string) (string, error) {
	sc := bufio.NewScanner(mounts)
	sc.Buffer(make([]byte, 0, 4<<10), 4*mapsLineMax) // two paths, and options
	for sc.Scan() {
		if number, rest, _ := strings.Cut(sc.Text(), " "); number == id {
			_, kind, _ := strings.Cut(rest, " - ")
			kind, _, _ = strings.Cut(kind, " ")
			return kind, nil
		}
	}
	if err := sc.Err(); err != nil {
		return "", fmt.Errorf("mounts: %w", err)
	}
	return "", nil
}
