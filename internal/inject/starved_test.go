package inject

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/target/victim"
)

// TestStarved: all threads wait in a call that an interrupt alone ends with EINTR, and
// get no CPU for far longer than a thread in a futex wait is given to stop.
func TestStarved(t *testing.T) {
	const cpu, starved = "0", 300 * time.Millisecond
	lib, tr := payload(t, "payload.so"), tracer(t)
	v := victim.Start(t, "busy", "-o", "epoll", "epoll", "epoll")
	pid := strconv.Itoa(v.PID)
	command(t, "taskset", "-a", "-p", "-c", cpu, pid)
	command(t, "chrt", "-a", "-i", "-p", "0", pid)
	t.Cleanup(func() { Fault = nil })
	for range 5 {
		hog := exec.Command("taskset", "-c", cpu, "nice", "-n", "-20", "sh", "-c", "while :; do :; done")
		if err := hog.Start(); err != nil {
			t.Fatal(err)
		}
		runs(t, hog.Process.Pid)
		Fault = func(p Point) error {
			if p == PointSeized {
				time.AfterFunc(starved, func() { _ = hog.Process.Kill() })
			}
			return nil
		}
		inject(t, v, tr, Request{Library: lib, Entry: "rtl_attach", Env: env(9)})
		_ = hog.Wait()
		v.Unharmed(t)
	}
}

// runs waits until a process is the shell that it was to become.
func runs(t *testing.T, pid int) {
	t.Helper()
	if !eventually(func() bool {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return strings.TrimSpace(string(name)) == "sh"
	}) {
		t.Fatalf("process %d does not start", pid)
	}
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Skipf("%s: %v: %s", name, err, out)
	}
}
