package inject

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestHeldRunsOn: a thread that is held over its clone gets no CPU in time for a step.
// The injection finds out whether it has made the clone (step 2) or not (step 1), and
// no other thread makes a second one.
func TestHeldRunsOn(t *testing.T) {
	v := victim.Start(t, "busy", "-o", "poll", "poll", "poll")
	tr, lib := tracer(t), payload(t, "payload.so")
	t.Cleanup(func() { Fault, stepSyscall = nil, (*ptrace.Tracee).StepSyscall })
	late := 0   // which step, counted from the clone's entry
	met := true // in this injection: a second visit is in time
	Fault = func(p Point) error {
		if p == PointMasked2 && !met {
			step := 0
			met = true
			stepSyscall = func(c *ptrace.Tracee, patience time.Duration) (ptrace.Stop, error) {
				stop, err := c.StepSyscall(patience)
				if step++; err == nil && step == late {
					err = ptrace.ErrNoStop
				}
				return stop, err
			}
		}
		return nil
	}
	before := v.Inventory(t)
	for n := range 10 {
		late, met, stepSyscall = 1+n%2, false, (*ptrace.Tracee).StepSyscall
		rep := inject(t, v, tr, Request{Library: lib, Entry: "rtl_attach", Env: env(9)})
		if rep.EntryResult != 90001 || (late == 2 && (rep.Rung != "released" || stopsUsed(rep) != 2)) {
			t.Errorf("late at step %d: %+v", late, rep)
		}
		v.AsBefore(t, before)
	}
	v.Unharmed(t)
}

// stopsUsed leaves out the threads that did not stop in time and were passed over.
func stopsUsed(rep *Report) (n int) {
	for _, p := range rep.Pauses {
		if p.Used {
			n++
		}
	}
	return n
}

// TestInterruptedForGood: a signal that arrives while a thread is stopped ends its
// pause(), as it would without the stop.
func TestInterruptedForGood(t *testing.T) {
	const signal = unix.Signal(34 + 6) // glibc's SIGRTMIN + 6
	v := victim.Start(t, "busy", "-o", "poll", "pause", "pause")
	tr, lib := tracer(t), payload(t, "payload.so")
	t.Cleanup(func() { Fault = nil })
	for _, when := range []Point{PointStopped, PointMasked, PointMasked2} {
		before := v.Health(t).Threads
		Fault = func(p Point) error {
			if p == when {
				for _, th := range before {
					if err := unix.Tgkill(v.PID, th.TID, signal); err != nil {
						t.Error(err)
					}
				}
			}
			return nil
		}
		inject(t, v, tr, Request{Library: lib, Entry: "rtl_attach", Env: env(9)})
		for i := range before {
			if !hang.Eventually(func() bool { return v.Health(t).Threads[i].Beats > before[i].Beats }) {
				t.Errorf("%s: thread %d still waits", when, before[i].TID)
			}
		}
		v.Unharmed(t)
	}
}

// TestMovedOn: a thread that was chosen in a futex wait is in pause() when it is stopped.
func TestMovedOn(t *testing.T) {
	const signal = unix.Signal(34 + 6) // glibc's SIGRTMIN + 6
	v := victim.Start(t, "busy", "-o", "poll", "futexpause")
	tg := open(t, v)
	t.Cleanup(func() { Fault = nil })
	tid, beats := 0, uint64(0)
	Fault = func(p Point) error {
		switch {
		case p == PointSeized && tid == 0:
			th := v.Health(t).Threads[0] // wakes it
			tid, beats = th.TID, th.Beats
			if !hang.Eventually(func() bool { c, err := tg.Syscall(tid); return err == nil && c.Number == unix.SYS_PAUSE }) {
				t.Error("it is not in pause()")
			}
		case p == PointMasked:
			if err := unix.Tgkill(v.PID, tid, signal); err != nil {
				t.Error(err)
			}
		}
		return nil
	}
	inject(t, v, tracer(t), Request{Library: payload(t, "payload.so"), Entry: "rtl_attach", Env: env(9)})
	if !hang.Eventually(func() bool { return v.Health(t).Threads[0].Beats > beats }) {
		t.Error("it still waits")
	}
	v.Unharmed(t)
}

// TestRestoreWait: a thread that was held in poll, even without a time-out, is in
// restart_syscall at the next stop; it must issue its own call again.
func TestRestoreWait(t *testing.T) {
	var w wait
	in := func(nr uint64) *ptrace.Regs { return &ptrace.Regs{Orig_rax: nr, Rip: 100, Rsp: 200} }
	for _, c := range []struct {
		tid       int
		now, want uint64
	}{
		{1, unix.SYS_RESTART_SYSCALL, unix.SYS_RESTART_SYSCALL}, // never seen before
		{1, unix.SYS_POLL, unix.SYS_POLL},
		{1, unix.SYS_RESTART_SYSCALL, unix.SYS_POLL},
		{2, unix.SYS_RESTART_SYSCALL, unix.SYS_RESTART_SYSCALL}, // another thread
	} {
		resume := ptrace.Regs{Rax: c.now}
		if w.restore(c.tid, in(c.now), &resume); resume.Rax != c.want {
			t.Errorf("thread %d in %d resumes with %d, not %d", c.tid, c.now, resume.Rax, c.want)
		}
	}
}
