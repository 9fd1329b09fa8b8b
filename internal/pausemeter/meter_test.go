package pausemeter

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

func open(t *testing.T) *Meter {
	t.Helper()
	m, err := Open()
	for _, machine := range []error{ErrNamespace, ErrDenied, ebpf.ErrNotSupported, btf.ErrNotFound, os.ErrNotExist} {
		if errors.Is(err, machine) {
			testenv.Skip(t, err.Error())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func sleeper(t *testing.T) int {
	t.Helper()
	c := exec.Command("sleep", "1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c.Process.Pid
}

// TestStopsAreCounted: as many as were made, of the watched process, by whom, and no longer than our own clock says.
func TestStopsAreCounted(t *testing.T) {
	m := open(t)
	watched, other := sleeper(t), sleeper(t)
	if err := m.Watch(watched); err != nil {
		t.Fatal(err)
	}
	tracer := ptrace.NewTracer()
	defer tracer.Close()
	const stops = 5
	var own, seen Sum
	for range stops {
		s, err := tracer.StopOnce(watched, watched, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		own.Add(s.Time)
		if _, err := tracer.StopOnce(other, other, 0, false); err != nil {
			t.Fatal(err)
		}
	}
	all, err := m.Take()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.PID != uint32(watched) || s.TID != uint32(watched) || s.By != uint32(os.Getpid()) || s.Duration <= 0 {
			t.Errorf("%+v", s)
		}
		seen.Add(s.Duration)
	}
	if seen.Stops != stops || seen.Total > own.Total || seen.Worst > own.Worst {
		t.Errorf("by the scheduler %v, by our own clock %v", seen, own)
	}
	if again, err := m.Take(); len(again) != 0 || err != nil {
		t.Errorf("taken twice: %v, %v", again, err)
	}
}

// TestPinned: the meter sees whether the thread that stops another may run on one
// processor only.
func TestPinned(t *testing.T) {
	m := open(t)
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		t.Fatal(err)
	}
	if may.Count() < 2 {
		testenv.Skip(t, "this machine has one processor")
	}
	cpu := 0
	for !may.IsSet(cpu) {
		cpu++
	}
	pid := sleeper(t)
	if err := m.Watch(pid); err != nil {
		t.Fatal(err)
	}
	tracer := ptrace.NewTracer()
	defer tracer.Close()
	for _, c := range []struct {
		cpu    int
		pinned bool
	}{{cpu, true}, {-1, false}} {
		if _, err := tracer.StopOnce(pid, pid, c.cpu, false); err != nil {
			t.Fatal(err)
		}
		stops, err := m.Take()
		if err != nil || len(stops) != 1 || stops[0].Pinned != c.pinned {
			t.Errorf("on processor %d: %+v, %v", c.cpu, stops, err)
		}
	}
}

// TestWhatFindsNoRoomIsSaid: no figure is made of a part.
func TestWhatFindsNoRoomIsSaid(t *testing.T) {
	m := open(t)
	pid := sleeper(t)
	if err := m.Watch(pid); err != nil {
		t.Fatal(err)
	}
	limit := ptrace.HoldLimit
	ptrace.HoldLimit = hang.Limit // so many stops take a while on a busy machine
	defer func() { ptrace.HoldLimit = limit }()
	tracer := ptrace.NewTracer()
	defer tracer.Close()
	err := tracer.Do(func() error {
		c := &ptrace.Tracee{PID: pid, TID: pid}
		if err := c.Seize(); err != nil {
			return err
		}
		for range eventsBytes/eventBytes + 1 {
			if _, err := c.Interrupt(hang.Limit); err != nil {
				return err
			}
			if err := unix.PtraceCont(pid, 0); err != nil {
				return err
			}
		}
		if _, err := c.Interrupt(hang.Limit); err != nil {
			return err
		}
		return c.Release()
	})
	if err != nil {
		t.Fatal(err)
	}
	if stops, err := m.Take(); !errors.Is(err, ErrMissed) || len(stops) == 0 {
		t.Errorf("%d stops, %v", len(stops), err)
	}
}

func TestSum(t *testing.T) {
	var s Sum
	for _, want := range []string{"nothing", "one stop of 3 µs", "2 stops, worst 5 µs, together 8 µs"} {
		if s.String() != want {
			t.Errorf("%q, want %q", s, want)
		}
		s.Add(time.Duration(3+2*s.Stops) * time.Microsecond)
	}
}
