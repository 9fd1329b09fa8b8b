package inject

import (
	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// checkLimits fails, as the target's call would, if the target's limits do not allow the
// mappings or one more thread, so that no thread is stopped in vain.
func checkLimits(t *target.Target, p place) error {
	switch {
	case t.SpareMemory() < p.bytes():
		return &BootError{Call: "mmap", Err: unix.ENOMEM}
	case t.SpareThreads() == 0:
		return &BootError{Call: "clone", Err: unix.EAGAIN}
	}
	return nil
}
