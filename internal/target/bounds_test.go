package target

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

func openLight(t *testing.T, pid int) *Target {
	t.Helper()
	tg, err := OpenLight(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tg.Close)
	return tg
}

// TestDescriptorMax: a memfd is looked for among so many descriptors, no more.
func TestDescriptorMax(t *testing.T) {
	most := descriptorMax
	defer func() { descriptorMax = most }()
	descriptorMax = 1 << 10
	tg := openLight(t, os.Getpid())
	for _, found := range []bool{true, false} {
		if !found {
			fill(t, 2*descriptorMax)
		}
		memfd, err := unix.MemfdCreate("far", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		f, err := tg.openByInode(MemfdMapping{Name: "far"}, func(*unix.Statx_t) bool { return true })
		if found != (err == nil) || !found && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("descriptor %d: %v", memfd, err)
		}
		_ = f.Close()
		_ = unix.Close(memfd)
	}
}

func fill(t *testing.T, descriptors int) {
	t.Helper()
	for range descriptors {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
	}
}

// TestWaitChannel: it is read through the directory that is held, not by the number,
// which may be another's by now.
func TestWaitChannel(t *testing.T) {
	v := victim.Start(t, "static")
	tg := openLight(t, v.PID)
	where, tries := "", 0
	hang.Eventually(func() bool { // it may be about to sleep, or be awake for a moment
		where = tg.WaitChannel(v.PID)
		tries++
		return where != "" || tries == 1000
	})
	if where == "" {
		testenv.Skip(t, "this kernel does not say where threads sleep")
	}
	tg.PID = os.Getpid()
	if !hang.Eventually(func() bool { return tg.WaitChannel(v.PID) == where }) {
		t.Errorf("with another number it never sleeps in %q", where)
	}
}
