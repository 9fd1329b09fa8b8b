package pausemeter

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
)

func open(t *testing.T) *Meter {
	t.Helper()
	m, err := Open()
	if err != nil {
		t.Skipf("left out: %v", err)
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
		s, err := tracer.StopOnce(watched, watched, 0)
		if err != nil {
			t.Fatal(err)
		}
		own.Add(s.Time)
		if _, err := tracer.StopOnce(other, other, 0); err != nil {
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

// TestWhatFindsNoRoomIsSaid: no figure is made of a part.
func TestWhatFindsNoRoomIsSaid(t *testing.T) {
	m := open(t)
	pid := sleeper(t)
	if err := m.Watch(pid); err != nil {
		t.Fatal(err)
	}
	tracer := ptrace.NewTracer()
	defer tracer.Close()
	err := tracer.Do(func() error {
		c := &ptrace.Tracee{PID: pid, TID: pid}
		if err := c.Seize(); err != nil {
			return err
		}
		for range eventsBytes/eventBytes + 1 {
			if _, err := c.Interrupt(time.Second); err != nil {
				return err
			}
			if err := unix.PtraceCont(pid, 0); err != nil {
				return err
			}
		}
		if _, err := c.Interrupt(time.Second); err != nil {
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
	for _, want := range []string{"nothing", "one stop of 3µs", "2 stops, worst 5µs, together 8µs"} {
		if s.String() != want {
			t.Errorf("%q, want %q", s, want)
		}
		s.Add(time.Duration(3+2*s.Stops) * time.Microsecond)
	}
}
