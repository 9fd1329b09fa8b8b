package faults

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/faultpoints"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// faults: 33, continued. Every named step of the tool and of the payload, with other faults.
// faultPoints and package faultpoints name them.

var afterDetach = []string{"detached", "drained", "finished"}

// holdingThread lists the points at which a thread of the target is traced.
func holdingThread() []string {
	return names(slices.Concat([]inject.Point{
		inject.PointSeized, inject.PointStopped, inject.PointFramed, inject.PointSet, inject.PointMasked,
		inject.PointSeized2, inject.PointStopped2, inject.PointFramed2, inject.PointSet2, inject.PointMasked2,
		inject.Point(testpoint.Grace),
	}, inject.HeldPoints, inject.UndoPoints, inject.HeldUndoPoints, inject.FilterPoints))
}

// failsAtPoints: a victim is used until it has a resident payload: after that the tool does not
// pass the injector's points any more.
func failsAtPoints(t *testing.T) string {
	points := faultPoints()
	codes := map[int]int{}
	for i := 0; i < len(points) && !t.Failed(); {
		v := mixed(t)
		for first := true; i < len(points); i, first = i+1, false {
			r := faulty(t, v.PID, "fail@"+points[i], quickly)
			code := r.Exit(t)
			v.sound(t)
			struck := r.HasSaid("made to fail")
			if !struck && !first {
				break
			}
			codes[code]++
			// If an entry is running while the tool looks for its control block, the tool looks again.
			if again := points[i] == "taken" && slices.Contains(goneWell, code); !struck || code != 1 && !again {
				t.Errorf("%s: exit code %d\n%s", points[i], code, r.Stderr.String())
			}
		}
		record(t, v.PID).ok(t)
		v.sound(t)
		v.Stop()
	}
	return fmt.Sprintf("%d points: exit codes %v; every victim recorded afterwards", len(points), codes)
}

// hangsAtPoints: a tool that holds a thread ends by itself; any other hangs until its user ends
// it.
func hangsAtPoints(t *testing.T) string {
	points := faultPoints()
	if short() {
		points = []string{"framed-2", "loaded", "attached", "recording", "closing"}
	}
	ended := 0
	for _, p := range points {
		v := mixed(t)
		r := faulty(t, v.PID, "hang@"+p, quickly)
		if !hang.Eventually(func() bool { return r.HasSaid("made to hang") }) {
			t.Errorf("%s: not passed\n%s", p, r.Stderr.String())
		}
		if slices.Contains(holdingThread(), p) {
			if code := r.Exit(t); code != 1 {
				t.Errorf("%s: exit code %d\n%s", p, code, r.Stderr.String())
			}
			ended++
		} else {
			v.Unharmed(t)
			v.works(t)
			r.interruptUntilGone(t)
		}
		v.Unharmed(t) // a mapping may be left, for the next session to free
		v.works(t)
		record(t, v.PID).ok(t)
		v.sound(t)
		v.Stop()
	}
	return fmt.Sprintf("%d points: %d tools that held a thread gave up, the others ended at a third Ctrl-C", len(points), ended)
}

// interruptUntilGone sends SIGINT until the tool has ended, like a user whose tool hangs.
func (r *run) interruptUntilGone(t *testing.T) {
	t.Helper()
	over := make(chan struct{})
	go func() {
		for tick := time.Tick(200 * time.Millisecond); ; {
			select {
			case <-over:
				return
			case <-tick:
				r.Signal(t, unix.SIGINT)
			}
		}
	}()
	if code := r.Exit(t); code != -1 {
		t.Errorf("exit code %d\n%s", code, r.Stderr.String())
	}
	close(over)
}

// targetDiesAtPoints: the tool reports it, in time, and with the right exit code.
func targetDiesAtPoints(t *testing.T) string {
	points := faultPoints()
	if short() {
		points = []string{"looked", "framed", "written", "framed-2", "cloned", "loaded", "called", "recording", "closing", "detached"}
	}
	codes := map[int]int{}
	for _, p := range points {
		v := mixed(t)
		r := prepared(t, "rtl-attach-fault", v.PID, quickly)
		r.Cmd.Env = append(r.Cmd.Environ(), "RTL_FAULT=murder@"+p, fmt.Sprintf("RTL_FAULT_PID=%d", v.PID))
		r.Start(t)
		code := r.Exit(t)
		codes[code]++
		if !r.HasSaid("made to murder at " + p) {
			t.Errorf("%s: not passed\n%s", p, r.Stderr.String())
		}
		want := []int{3, 5}
		if slices.Contains(afterDetach, p) {
			want = goneWell
		}
		if !slices.Contains(want, code) {
			t.Errorf("%s: exit code %d\n%s", p, code, r.Stderr.String())
		}
		v.Stop()
	}
	return fmt.Sprintf("%d points: exit codes %v", len(points), codes)
}

// payloadAtSteps: the payload fails, hangs for longer than the tool waits, ends
// the target, or loses its recorder, at every step of an attach and a detach.
func payloadAtSteps(t *testing.T) string {
	all := faultpoints.All()
	if short() {
		all = []string{"thread", "pool", "patch", faultpoints.Copies, "close", "drain"}
		quiet := onGPU(t, "busy", "futex", "read", "sleep")
		defer begunAt(t, quiet, "grace", "hang").ends(t) // meanwhile the others
	}
	codes := map[string]map[int]int{}
	for i, step := range all {
		for _, fault := range faultsAt(i, step) {
			if codes[fault] == nil {
				codes[fault] = map[int]int{}
			}
			codes[fault][begunAt(t, mixed(t), step, fault).ends(t)]++
		}
	}
	return fmt.Sprintf("%d steps: exit codes %v", len(all), codes)
}

// faultsAt returns the faults of the i-th step: in the short form it fails, and in turn
// ends the target or loses its recorder.
func faultsAt(i int, step string) []string {
	switch {
	case short():
		return []string{"fail", []string{"die", "orphan"}[i%2]}
	case step == "block": // its recorder is not known there
		return []string{"fail", "die", "hang"}
	}
	return []string{"fail", "die", "orphan", "hang"}
}

// faultsOverAndOver: a payload that fails releases its resources, at every step of a resident
// payload.
func faultsOverAndOver(t *testing.T) string {
	all := slices.Concat(faultpoints.Arming, []string{faultpoints.Copies}, faultpoints.Disarming)
	if short() {
		all = []string{"pool", "signals", "ring", "patch", "close"}
	}
	v := onGPU(t, "busy", "futex", "read", "sleep", "epoll")
	record(t, v.PID, "--payload", testenv.Artefact(t, "librtl-attach-test.so")).ok(t)
	return staysFlat(t, v, 2*len(all), repeat(2, 20)*len(all), func(i int) {
		step := all[i%len(all)]
		r := begunAt(t, v, step, "fail").r
		if code := r.Exit(t); !slices.Contains(expected(step, "fail"), code) {
			t.Fatalf("fail at %s: exit code %d\n%s", step, code, r.Stderr.String())
		}
		r.removeTrace()
	})
}

// stepFault is a recording with a fault of the payload at a step.
type stepFault struct {
	step, fault string
	v           *gpuVictim
	r           *run
}

func begunAt(t *testing.T, v *gpuVictim, step, fault string) *stepFault {
	t.Helper()
	args := []string{
		"--payload", testenv.Artefact(t, "librtl-attach-test.so"), "--memory-copy-trace",
		"--set", "RTL_TEST_FAIL_STEP=" + step, "--set", "RTL_TEST_FAULT=" + fault,
	}
	if fault != "fail" { // that must strike the tool's own detach, not one from a recorder that seems dead
		args = append(args, quickly)
	}
	return &stepFault{step, fault, v, recording(t, "rtl-attach", v.PID, args...)}
}

func (s *stepFault) ends(t *testing.T) (code int) {
	t.Helper()
	defer s.v.Stop()
	code = s.r.Exit(t)
	if !slices.Contains(expected(s.step, s.fault), code) {
		t.Errorf("%s at %s: exit code %d\n%s", s.fault, s.step, code, s.r.Stderr.String())
	}
	if s.fault == "die" {
		return code
	}
	if s.fault == "fail" && s.step == "thread" { // nothing is wrong but that the control block has no thread
		s.v.Unharmed(t)
		s.v.works(t)
	} else {
		s.v.sound(t)
	}
	record(t, s.v.PID, "--payload", testenv.Artefact(t, "librtl-attach-test.so")).ok(t)
	s.v.sound(t)
	return code
}

// expected exit codes; -1: killed.
func expected(step, fault string) []int {
	fails := slices.Contains(faultpoints.First, step) || slices.Contains(faultpoints.Arming, step) || slices.Contains(faultpoints.Refusing, step)
	switch {
	case fault == "orphan":
		return []int{-1}
	case fault == "die" && step == "unpatched": // the tool may have its answer already
		return append([]int{5}, goneWell...)
	case fault == "die":
		return []int{5}
	case fault == "fail" && fails:
		return []int{1}
	case fault == "fail": // the rest cannot fail, it can only be cut short
		return goneWell
	default: // an entry is waited for for longer, a command is not
		return append([]int{1, 6}, goneWell...)
	}
}
