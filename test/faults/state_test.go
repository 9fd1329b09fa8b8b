package faults

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// state is a state of all threads of a busy victim.
type state struct {
	args        string // of busy
	rung        string // that the injector must use at least once; "": any
	short, long int    // injections
	whole       int    // attaches with the tool, in the long form; 0: a quarter of long
	check       func(*testing.T, *stateReport)
}

// stateReport has the results of attaches to a victim in one state.
type stateReport struct {
	v       *victim.Victim
	health  victim.Health
	reports []*inject.Report
}

// Injections come first, without the runtime, whose threads they would otherwise borrow. Then
// come whole attaches, with the runtime.
func (s state) run(t *testing.T) string {
	n := repeat(s.short, s.long)
	r := s.inject(t, n)
	g := onGPU(t, "busy", strings.Fields(s.args)...)
	a := g.recorded(t, repeat(1, cmp.Or(s.whole, s.long/4)))
	h := g.sound(t)
	if s.check != nil {
		s.check(t, &stateReport{v: g.Victim, health: h})
	}
	return fmt.Sprintf("%v; %v; harm %d, EINTR %d, masks %d", r, a,
		h.Harm+r.health.Harm, h.EINTR+r.health.EINTR, h.Mask+r.health.Mask)
}

func (s state) inject(t *testing.T, n int) *stateReport {
	t.Helper()
	v := victim.Start(t, "busy", strings.Fields(s.args)...)
	before, signals := v.Inventory(t), signalsOf(v.PID)
	r := injections(t, v, n)
	if s.rung != "" && r.used(s.rung) == 0 {
		t.Errorf("no thread was %s: %v", s.rung, r)
	}
	var now signalState
	if !hang.Eventually(func() bool { now = signalsOf(v.PID); return now.as(signals) }) {
		t.Errorf("signals ignored, caught, blocked by each thread: %+v\nnow: %+v", signals, now)
	}
	r.health = v.Unharmed(t)
	v.AsBefore(t, before)
	if s.check != nil {
		s.check(t, r)
	}
	return r
}

// injections injects n times into a victim.
func injections(t *testing.T, v *victim.Victim, n int) *stateReport {
	t.Helper()
	r := &stateReport{v: v}
	for range n {
		rep, err := injected(t, v, inject.Request{Library: library(t, "payload.so"), Entry: "rtl_mask"})
		if err != nil || rep.EntryResult != 0 {
			t.Fatalf("inject: %v\n%+v", err, rep)
		}
		r.reports = append(r.reports, rep)
	}
	return r
}

// used returns the number of injections by a rung.
func (r *stateReport) used(rung string) (n int) {
	for _, rep := range r.reports {
		if rep.Rung == rung {
			n++
		}
	}
	return n
}

// String returns the results as text.
func (r *stateReport) String() string {
	var longest time.Duration
	for _, rep := range r.reports {
		for _, p := range rep.Pauses {
			longest = max(longest, p.Stopped)
		}
	}
	return fmt.Sprintf("the injector: %d injections (released %d, held %d), longest stop %v, %d rounds of work",
		len(r.reports), r.used("released"), r.used("held"), longest.Round(time.Microsecond), r.health.Beats)
}

// signalState has the signal dispositions, and the mask of each thread.
type signalState struct {
	ignored, caught string
	blocked         map[string]mask
}

// mask has the signals that a thread blocks in all of several reads, and in any of them: a
// handler, or a wait with its own mask (ppoll), blocks more meanwhile.
type mask struct{ least, most uint64 }

// signalsOf reads the signal state of a process, in intervals that are long enough for a thread
// in a handler to get a CPU.
func signalsOf(pid int) signalState {
	const looks, apart = 20, 5 * time.Millisecond
	leader := statusOf(pid, strconv.Itoa(pid))
	s := signalState{ignored: leader["SigIgn"], caught: leader["SigCgt"], blocked: map[string]mask{}}
	tids := threadsOf(pid)
	for range looks {
		for _, tid := range tids {
			now, _ := strconv.ParseUint(statusOf(pid, tid)["SigBlk"], 16, 64)
			seen, known := s.blocked[tid]
			if !known {
				seen.least = now
			}
			s.blocked[tid] = mask{seen.least & now, seen.most | now}
		}
		time.Sleep(apart)
	}
	return s
}

// as reports whether the state can be the same as before. A thread that is nearly always in such
// a wait may have been outside of it in one read, before or after.
func (s signalState) as(before signalState) bool {
	if s.ignored != before.ignored || s.caught != before.caught || len(s.blocked) != len(before.blocked) {
		return false
	}
	for tid, was := range before.blocked {
		now, there := s.blocked[tid]
		if !there || now.least&^was.most != 0 || was.least&^now.most != 0 {
			return false
		}
	}
	return true
}

// tids returns the victim's threads of one kind.
func tids(h victim.Health, kind string) (list []int) {
	for _, th := range h.Threads {
		if th.Kind == kind {
			list = append(list, th.TID)
		}
	}
	return list
}

// neverBorrowed checks that no injection used a thread of that kind.
func neverBorrowed(kind string) func(*testing.T, *stateReport) {
	return func(t *testing.T, r *stateReport) {
		not := tids(r.health, kind)
		for _, rep := range r.reports {
			for _, p := range rep.Pauses {
				if p.Used && slices.Contains(not, p.TID) {
					t.Errorf("thread %d (%s) was borrowed: %+v", p.TID, kind, rep)
				}
			}
		}
	}
}

// stopped checks that the injector has stopped threads of that kind.
func stopped(kind string) func(*testing.T, *stateReport) {
	return func(t *testing.T, r *stateReport) {
		these := tids(r.health, kind)
		for _, rep := range r.reports {
			if slices.ContainsFunc(rep.Pauses, func(p inject.Pause) bool { return slices.Contains(these, p.TID) }) {
				return
			}
		}
		if len(r.reports) > 0 {
			t.Errorf("no thread of kind %q was stopped", kind)
		}
	}
}

// stoppedAt returns the instruction pointers of the threads that the injector stopped while f
// ran.
func stoppedAt(t *testing.T, pid int, f func()) (at []uint64) {
	t.Helper()
	inject.Fault = func(p inject.Point) error {
		if p != inject.PointStopped && p != inject.PointStopped2 {
			return nil
		}
		var regs unix.PtraceRegs
		if tid := tracedBy(pid); tid != 0 && unix.PtraceGetRegs(tid, &regs) == nil {
			at = append(at, regs.Rip)
		}
		return nil
	}
	defer func() { inject.Fault = nil }()
	f()
	return at
}

// tracedBy returns the thread that this process traces.
func tracedBy(pid int) int {
	list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, e := range list {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", pid, e.Name()))
		if !strings.Contains(string(b), "TracerPid:\t0\n") {
			var tid int
			_, _ = fmt.Sscan(e.Name(), &tid)
			return tid
		}
	}
	return 0
}
