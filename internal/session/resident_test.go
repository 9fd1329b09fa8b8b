package session

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// TestUnfinished: between the mapping of its control block and the block's first words a
// payload is not there yet, and nothing is wrong with it.
func TestUnfinished(t *testing.T) {
	fd, err := unix.MemfdCreate(ring.ControlName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "control block")
	defer file.Close()
	if err := file.Truncate(ring.ControlBytes); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(fd, 0, ring.ControlBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	self, err := target.Glimpse(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	if _, err := openResident(self); !errors.Is(err, errNotResident) || !errors.Is(err, ring.ErrUnfinished) {
		t.Errorf("nothing in it: %v", err)
	}
	mem[0] = 1
	if _, err := openResident(self); !errors.Is(err, ring.ErrMalformed) {
		t.Errorf("something else in it: %v", err)
	}
}
