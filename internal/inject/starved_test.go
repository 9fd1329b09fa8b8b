package inject

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestStarved: all threads wait in a call that PTRACE_INTERRUPT alone ends with EINTR,
// and get no CPU for far longer than the tool waits for a thread in a futex wait.
func TestStarved(t *testing.T) {
	lib, tr := payload(t, "payload.so"), tracer(t)
	v := victim.Start(t, "busy", "-o", "epoll", "epoll", "epoll")
	command(t, "taskset", "-a", "-p", "-c", hogged, strconv.Itoa(v.PID))
	t.Cleanup(func() { Fault = nil })
	for range 5 {
		h := startHog(t, v)
		Fault = func(p Point) error {
			if p == PointSeized {
				Fault = nil
				go h.end()
			}
			return nil
		}
		inject(t, v, tr, Request{Library: lib, Entry: "rtl_attach", Env: env(9)})
		close(h.injected)
		v.Unharmed(t)
	}
}

// hogged is the CPU that a hog keeps busy.
const hogged = "0"

// hog is a process that takes the CPU time of a victim.
type hog struct {
	victim   *victim.Victim
	cmd      *exec.Cmd
	injected chan struct{}
}

func startHog(t *testing.T, v *victim.Victim) *hog {
	t.Helper()
	h := &hog{victim: v, cmd: exec.Command("taskset", "-c", hogged, "sh", "-c", "while :; do :; done"), injected: make(chan struct{})}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.cmd.Process.Kill(); _ = h.cmd.Wait() })
	_ = unix.Setpriority(unix.PRIO_PROCESS, h.cmd.Process.Pid, -10) // as far as one may: who is to end it needs some CPU
	runs(t, h.cmd.Process.Pid)
	h.schedule(unix.SCHED_IDLE)
	return h
}

// end ends the starvation after a while, also if other processes keep the CPU busy, and
// also for the threads that the injection creates.
func (h *hog) end() {
	time.Sleep(300 * time.Millisecond)
	_ = h.cmd.Process.Kill()
	for {
		h.schedule(unix.SCHED_NORMAL)
		select {
		case <-h.injected:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// schedule gives all threads of the victim a policy; some may be gone.
func (h *hog) schedule(policy uint32) {
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", h.victim.PID))
	for _, thread := range threads {
		tid, _ := strconv.Atoi(thread.Name())
		_ = unix.SchedSetAttr(tid, &unix.SchedAttr{Policy: policy}, 0)
	}
}

// runs waits until the process has executed the shell.
func runs(t *testing.T, pid int) {
	t.Helper()
	if !hang.Eventually(func() bool {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return strings.TrimSpace(string(name)) == "sh"
	}) {
		t.Fatalf("process %d does not start", pid)
	}
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		testenv.Skip(t, fmt.Sprintf("%s: %v: %s", name, err, out))
	}
}
