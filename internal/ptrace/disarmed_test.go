package ptrace

import (
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// left returns the time until the timer kills the process; 0 if it is not armed.
func (d *deadman) left(t *testing.T) time.Duration {
	t.Helper()
	var spec unix.ItimerSpec
	if _, _, errno := unix.RawSyscall(unix.SYS_TIMER_GETTIME, uintptr(d.id), uintptr(unsafe.Pointer(&spec)), 0); errno != 0 {
		t.Fatal(errno)
	}
	return time.Duration(spec.Value.Nano())
}

// TestDeadmanDisarmed: the timer is armed only while a job runs.
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
