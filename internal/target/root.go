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

// A Place is something in the target's root, named by a descriptor (O_PATH) that
// opens nothing.
type Place struct {
	FD         int
	Filesystem string // its type, as the kernel names it; "": the target does not see the mount
}

// Close lets go of it.
func (p *Place) Close() { _ = unix.Close(p.FD) }

// OpenInRoot finds path from the target's root directory. Symbolic links are the
// target's: they lead about in that root, never in ours (openat2(2)). Folders on
// the way may lie on FUSE, whose server is asked for them, so that the walk is
// watched; what it ends at is not asked anything, nor mounted (autofs(5)).
func (t *Target) OpenInRoot(path string) (*Place, error) {
	return t.openInRoot(path, func(walk func() error) error { return walk() })
}

// OpenInRootAs is OpenInRoot where only that user gets through.
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
	mine := t.BeginRead(Filesystem)
	err = do(func() (err error) {
		p.FD, err = unix.Openat2(root, path, &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
		})
		return err
	})
	EndRead(mine)
	if err != nil {
		return nil, err
	}
	if p.Filesystem, err = t.filesystem(p.FD); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// filesystem is the type of the mount that a descriptor lies on, by the target's
// list of mounts: fstatfs(2) would be a question to the filesystem.
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

// mountType looks a mount up in a mountinfo file (proc_pid_mountinfo(5)); "": it
// is not there. What the target has named stands there without blanks.
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
