package ptrace_test

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

func init() {
	runtime.LockOSThread()
	ptrace.HoldLimit = 2 * hang.Limit // a job of these tests may wait for its tracee that long
}

func status(t *testing.T, pid int, key string) string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(string(b), "\n"+key+":\t")
	value, _, _ = strings.Cut(value, "\n")
	return value
}

// TestStopOnce: every kind of wait, interrupted many times, returns no EINTR.
func TestStopOnce(t *testing.T) {
	v := victim.Start(t, "busy")
	tr := ptrace.NewTracer()
	defer tr.Close()
	h := v.Health(t)
	var longest time.Duration
	for range 10 {
		for _, th := range h.Threads {
			s, err := tr.StopOnce(v.PID, th.TID, -1, false)
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Stack) < 128 {
				t.Errorf("%s: %d bytes of stack", th.Kind, len(s.Stack))
			}
			longest = max(longest, s.Stopped)
		}
	}
	t.Logf("longest stop %v", longest)
	v.Unharmed(t)
}

// TestNoStop: a parent in vfork does not stop before its child has exited. The tracer
// gives up and leaves it untraced.
func TestNoStop(t *testing.T) {
	v := vforked(t)
	tr := ptrace.NewTracer()
	defer tr.Close()
	err := tr.Do(func() error {
		c, err := ptrace.Seize(v.PID)
		if err != nil {
			return err
		}
		_, err = c.Interrupt(20 * time.Millisecond)
		return err
	})
	if !errors.Is(err, ptrace.ErrNoStop) { // its child goes on until it is asked
		t.Fatal(err)
	}
	if tracer := status(t, v.PID, "TracerPid"); tracer != "0" {
		t.Errorf("still traced by %s", tracer)
	}
	if answer := v.Ask(t, "e"); answer != "0" {
		t.Errorf("the vfork child's status was %q", answer)
	}
	// The tracer works on, with another thread.
	if _, err := tr.StopOnce(v.PID, v.PID, -1, false); err != nil {
		t.Error(err)
	}
}

// TestExecOfSeized: a thread that executes a program gets its leader's ID and is traced
// under it. The tracer gives up and leaves it untraced.
func TestExecOfSeized(t *testing.T) {
	v := victim.Start(t, "plain")
	tid, err := strconv.Atoi(v.Ask(t, "t"))
	if err != nil {
		t.Fatal(err)
	}
	tr := ptrace.NewTracer()
	defer tr.Close()
	err = tr.Do(func() error {
		c, err := ptrace.Seize(tid)
		if err != nil {
			return err
		}
		if answer := v.Ask(t, "x"); answer != "ready" {
			t.Errorf("the new program said %q", answer)
		}
		_, err = c.Interrupt(hang.Limit)
		return err
	})
	if !errors.Is(err, ptrace.ErrGone) {
		t.Errorf("error %v", err)
	}
	if tracer := status(t, v.PID, "TracerPid"); tracer != "0" {
		t.Errorf("still traced by %s", tracer)
	}
	v.Ask(t, "?")
}

// TestGroupStop: Interrupt reports a process that a signal has stopped as a GroupStop,
// and the process stays stopped.
func TestGroupStop(t *testing.T) {
	v := victim.Start(t, "plain")
	if err := unix.Kill(v.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if !hang.Eventually(func() bool { return status(t, v.PID, "State") == "T (stopped)" }) {
		t.Fatal("the victim does not stop")
	}
	tr := ptrace.NewTracer()
	defer tr.Close()
	err := tr.Do(func() error {
		c, err := ptrace.Seize(v.PID)
		if err != nil {
			return err
		}
		stop, err := c.Interrupt(hang.Limit)
		if err == nil && (stop.Kind != ptrace.GroupStop || stop.Signal != unix.SIGSTOP) {
			t.Errorf("stop %+v", stop)
		}
		return errors.Join(err, c.Detach())
	})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // time in which it must not run
	if state := status(t, v.PID, "State"); state != "T (stopped)" {
		t.Errorf("state %q", state)
	}
	if err := unix.Kill(v.PID, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	v.Ask(t, "?")
}

func TestGone(t *testing.T) {
	tr := ptrace.NewTracer()
	defer tr.Close()
	_, err := tr.StopOnce(1<<22-1, 1<<22-1, -1, false)
	if !errors.Is(err, ptrace.ErrGone) {
		t.Errorf("error %v", err)
	}
}

// TestNothingAllocates: no method allocates between the interrupt and the detach.
func TestNothingAllocates(t *testing.T) {
	v := victim.Start(t, "busy", "futex", "read")
	tr := ptrace.NewTracer()
	defer tr.Close()
	tid := v.Health(t).Threads[1].TID
	var allocs float64
	err := tr.Do(func() error {
		c := &ptrace.Tracee{TID: tid}
		all := ^uint64(0)
		var failed error
		allocs = testing.AllocsPerRun(20, func() {
			failed = errors.Join(failed, c.Seize())
			_, err := c.Interrupt(hang.Limit)
			failed = errors.Join(failed, err, c.ReadRegs(), c.ReadMask())
			_, err = c.ReadXState()
			mask := c.Mask
			failed = errors.Join(failed, err, c.WriteRegs(&c.Regs), c.WriteMask(&all), c.WriteMask(&mask), c.Release())
		})
		return failed
	})
	if err != nil {
		t.Fatal(err)
	}
	if allocs > 0 {
		t.Errorf("%v allocations in a stop", allocs)
	}
	v.Unharmed(t)
}

// TestBusy: another tracer's job does not hide the one that runs.
func TestBusy(t *testing.T) {
	one, other := ptrace.NewTracer(), ptrace.NewTracer()
	defer one.Close()
	defer other.Close()
	err := one.Do(func() error {
		if err := other.Do(func() error { return nil }); err != nil {
			return err
		}
		if one.Busy() <= 0 || ptrace.Busy() <= 0 {
			t.Errorf("busy for %v, all of them for %v", one.Busy(), ptrace.Busy())
		}
		if other.Busy() != 0 {
			t.Errorf("the idle one is busy for %v", other.Busy())
		}
		return nil
	})
	if err != nil || one.Busy() != 0 || ptrace.Busy() != 0 {
		t.Errorf("%v; still busy for %v, %v", err, one.Busy(), ptrace.Busy())
	}
}
