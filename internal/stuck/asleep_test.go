package stuck

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// The time for which a thread has not run is no longer than since it was seen to run, and nothing is said of one that
// runs or without the CPU's clock.
func TestAsleep(t *testing.T) {
	self, err := target.OpenLight(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	ran := make(chan time.Time)
	tids := make(chan int, 1)
	go func() {
		runtime.LockOSThread()
		tids <- unix.Gettid()
		ran <- time.Now()
		_, _ = unix.Read(pipe[0], make([]byte, 1))
	}()
	defer unix.Close(pipe[1])
	tid, began := <-tids, <-ran
	c := cpuClocks{read: target.CPUClock, known: map[int]time.Duration{}}
	for deadline := time.Now().Add(20 * time.Second); ; c.known = map[int]time.Duration{} {
		if d := c.asleep(self, tid); d > time.Since(began) {
			t.Fatalf("%s, but it ran %s ago", d, time.Since(began))
		} else if d > 0 {
			break
		}
		if _, err := self.LastRan(tid); err != nil || time.Now().After(deadline) {
			t.Fatalf("nothing is known: %v", err)
		}
	}
	none := cpuClocks{read: func(int) (time.Duration, error) { return 0, os.ErrNotExist }, known: map[int]time.Duration{}}
	if d := none.asleep(self, tid); d != 0 {
		t.Errorf("%s without a clock", d)
	}
	if d := c.asleep(self, unix.Gettid()); d != 0 {
		t.Errorf("%s of a thread that runs", d)
	}
}
