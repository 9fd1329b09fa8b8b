package hostile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestStage: the payload is put into a directory of the target's only where the
// target could do so: not into root's that it has bound over its /tmp, nor through
// one that only root gets through.
func TestStage(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "not root")
	}
	home, err := os.MkdirTemp("/mnt", "hostile") // what lies below /tmp is covered in the target
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	owned, closed, shared := filepath.Join(home, "owned"), filepath.Join(home, "closed"), filepath.Join(home, "open")
	behind := filepath.Join(closed, "open")
	for _, err := range []error{
		os.Chmod(home, 0o755),
		os.Mkdir(owned, 0o755), os.Mkdir(closed, 0o700), os.Mkdir(behind, 0o700), os.Mkdir(shared, 0o700),
		os.Chmod(behind, 0o777|os.ModeSticky), os.Chmod(shared, 0o777|os.ModeSticky),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	made := watch(t, owned, behind, shared)
	v := victim.Start(t, "hostile_stage", owned, behind, shared)
	r := attack(t, v.PID)
	r.end(t, 1)
	if n := made(); n[owned]+n[behind] != 0 || n[shared] != 1 {
		t.Errorf("files made: %v\n%s", n, r.Stderr.String())
	}
	if left := list(t, shared); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// watch returns a count of the files that have been made in each directory.
func watch(t *testing.T, dirs ...string) func() map[string]int {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	names := map[int]string{}
	for _, dir := range dirs {
		wd, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE)
		if err != nil {
			t.Fatal(err)
		}
		names[wd] = dir
	}
	return func() map[string]int { return made(t, fd, names) }
}

func made(t *testing.T, fd int, names map[int]string) map[string]int {
	t.Helper()
	count := map[string]int{}
	b := make([]byte, 64<<10)
	n, err := unix.Read(fd, b)
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	for b = b[:max(n, 0)]; len(b) >= unix.SizeofInotifyEvent; {
		const lengthAt = 12 // of the name, in struct inotify_event
		length := int(b[lengthAt]) | int(b[lengthAt+1])<<8
		dir, name := names[int(b[0])], string(b[unix.SizeofInotifyEvent:][:length])
		if strings.HasPrefix(name, ".rtl-payload-") {
			count[dir]++
		}
		b = b[unix.SizeofInotifyEvent+length:]
	}
	return count
}
