package ptrace

import (
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// left is how long a process has until the timer kills it; 0: it is not set.
func (d *deadman) left(t *testing.T) time.Duration {
	t.Helper()
	var spec unix.ItimerSpec
	if _, _, errno := unix.RawSyscall(unix.SYS_TIMER_GETTIME, uintptr(d.id), uintptr(unsafe.Pointer(&spec)), 0); errno != 0 {
		t.Fatal(errno)
	}
	return time.Duration(spec.Value.Nano())
}

// TestDeadmanDisarmed: the timer is set while a job runs, and not after it.
func TestDeadmanDisarmed(t *testing.T) {
	tr := NewTracer()
	defer tr.Close()
	for range 3 {
		if err := tr.Do(func() error {
			if left := tr.dead.left(t); left <= 0 || left > HoldLimit {
				t.Errorf("in a job the timer has %v left", left)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if left := tr.dead.left(t); left != 0 {
			t.Errorf("after the job the timer has %v left", left)
		}
	}
}
