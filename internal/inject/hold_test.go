package inject

import (
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target/victim"
)

// TestHeldRunsOn: a thread that is held over its clone gets no CPU in time for a
// step of it. Whether it has made the clone (step 2) or has not (step 1) is found
// out; no other thread makes another.
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
		if rep.EntryResult != 90001 || (late == 2 && (rep.Rung != "released" || len(rep.Pauses) != 2)) {
			t.Errorf("late at step %d: %+v", late, rep)
		}
		v.AsBefore(t, before)
	}
	v.Unharmed(t)
}
