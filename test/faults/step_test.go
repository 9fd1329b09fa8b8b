package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/session"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
	rtlpayload "github.com/rtl-attach/rtl-attach/payload"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// To test what a target does at a step of the attach, the tool must wait there: the session runs
// in this process, otherwise as in the tool.

// attempt records a process for a moment, and calls do at the step.
func attempt(t *testing.T, pid int, step inject.Point, do func()) (failure.ExitCode, error) {
	t.Helper()
	library, err := rtlpayload.Library()
	if err != nil {
		t.Fatal(err)
	}
	done := false
	inject.Fault = func(p inject.Point) error {
		if p == step && !done {
			done = true
			beside(do)
		}
		return nil
	}
	stall, hold := watchdog.Limit, ptrace.HoldLimit
	watchdog.Limit, ptrace.HoldLimit = hang.Limit, hang.Limit+stall // the step takes as long as the target's answer
	defer func() { inject.Fault, watchdog.Limit, ptrace.HoldLimit = nil, stall, hold }()
	o := session.Options{
		Request:  preflight.Request{PID: pid, Output: filepath.Join(t.TempDir(), "t.db"), Library: library},
		Duration: 100 * time.Millisecond,
	}
	outcome, err := session.Record(context.Background(), o, nil, silent{})
	if !done {
		t.Errorf("the attach did not come to step %s: %v", step, err)
	}
	if t.Failed() {
		t.FailNow() // the session may be at it still, and in the next one's way
	}
	var f *failure.Error
	if errors.As(err, &f) {
		return f.Code, err
	}
	return outcome.Code, err
}

// beside runs do on a separate goroutine, which it may end (t.Fatal): if it ended the tracer's
// goroutine, the session would wait for ever.
func beside(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	<-done
}

// silent is an observer that prints nothing.
type silent struct{}

func (silent) Preflight(string)                                                   {}
func (silent) Attached(string, int, time.Duration)                                {}
func (silent) Recording(time.Duration, time.Duration, collector.Progress, uint64) {}
func (silent) Triggered(string)                                                   {}
func (silent) Detaching(string, bool)                                             {}
func (silent) Detached(string)                                                    {}
func (silent) Warn(string)                                                        {}
func (silent) Debug(string)                                                       {}

// steps returns the steps of a row: in the short form every second one, from the first or
// from the next one, so that two rows together have all.
func steps(from int) []inject.Point {
	if !short() {
		return inject.Points
	}
	var some []inject.Point
	for i := from; i < len(inject.Points); i += 2 {
		some = append(some, inject.Points[i])
	}
	return some
}

func execAtEachStep(t *testing.T) string {
	codes, all := map[failure.ExitCode]int{}, steps(0)
	for _, step := range all {
		v := onGPU(t, "plain")
		code, err := attempt(t, v.PID, step, func() { v.Tell(t, "x"); v.leaves(t) })
		if code != failure.Failed && code != failure.TargetExited {
			t.Errorf("step %s: exit code %d: %v", step, code, err)
		}
		clear(t, step, err, "executed another program")
		codes[code]++
		if line := v.Line(t); line != "ready" {
			t.Fatalf("step %s: the new program said %q", step, line)
		}
		v.works(t)
		v.before = residueOf(t, v.PID)
		v.untouched(t)
		record(t, v.PID).ok(t)
		v.well(t)
		v.Stop()
	}
	return fmt.Sprintf("%d steps: %s; each new program attached to afterwards", len(all), counted(codes))
}

func exitAtEachStep(t *testing.T) string {
	codes := map[failure.ExitCode]int{}
	for _, step := range inject.Points {
		v := onGPU(t, "plain")
		code, err := attempt(t, v.PID, step, func() { v.Tell(t, "q"); v.leaves(t) })
		if code != failure.NotPermitted && code != failure.TargetExited {
			t.Errorf("step %s: exit code %d: %v", step, code, err)
		}
		clear(t, step, err, "no process has this pid (any more)")
		codes[code]++
		v.Stop()
	}
	return fmt.Sprintf("%d steps: %s", len(inject.Points), counted(codes))
}

// clear checks that a failed attach has a cause and the target's state.
func clear(t *testing.T, step inject.Point, err error, cause string) {
	t.Helper()
	var f *failure.Error
	switch {
	case err == nil: // attached, and the end came then
	case !errors.As(err, &f):
		t.Errorf("step %s: no explanation: %v", step, err)
	case !strings.Contains(f.Cause, cause) || f.Fix == "" || f.Target == "":
		t.Errorf("step %s: cause %q, fix %q, target %q; %v", step, f.Cause, f.Fix, f.Target, err)
	}
}

func counted(codes map[failure.ExitCode]int) string {
	var said []string
	for _, code := range []failure.ExitCode{failure.Failed, failure.NotPermitted, failure.TargetExited} {
		if codes[code] > 0 {
			said = append(said, fmt.Sprintf("%d times exit %d", codes[code], code))
		}
	}
	return strings.Join(said, ", ")
}

// leaves waits until the victim is exiting: its memory is released, or will be once a traced
// thread is released. That may be the leader, which has been asked to exit (see forkAt).
func (v *gpuVictim) leaves(t *testing.T) {
	tg, err := target.Open(v.PID)
	if errors.Is(err, target.ErrGone) || errors.Is(err, target.ErrZombie) {
		return
	}
	opened := err == nil // not while a thread of it is traced
	if opened {
		defer tg.Close()
	}
	if !hang.Eventually(func() bool { return opened && tg.CheckIdentity() != nil || dying(v.PID) || v.leaderStopped() }) {
		t.Error("the victim does not leave its program")
	}
}

// dying reports whether at least all threads but one have ended.
func dying(pid int) bool {
	count := states(pid)
	alive := 0
	for state, n := range count {
		if state != "Z" && state != "X" {
			alive += n
		}
	}
	return alive <= 1
}

func forkAtEachStep(t *testing.T) string {
	const most = 40
	again, all := 0, steps(1)
	for _, step := range all {
		for !forkAt(t, step) {
			if again++; again > most {
				t.Fatalf("step %s: the thread that shall fork was stopped itself each time", step)
			}
		}
	}
	return fmt.Sprintf("%d forks at %d steps: each child allocated and ended with 7, each parent recorded; "+
		"%d times the thread asked was the one stopped, and forked when it went on", len(all), len(all), again)
}

// forkAt makes the victim fork while the attach waits at the step. It returns false if the attach
// has stopped the leader, which cannot fork then. That happens if no other thread gets a CPU in
// time.
func forkAt(t *testing.T, step inject.Point) (forked bool) {
	t.Helper()
	v := onGPU(t, "plain")
	defer v.Stop()
	code, err := attempt(t, v.PID, step, func() {
		v.Tell(t, "f")
		if !hang.Eventually(func() bool { forked = v.Answered(); return forked || v.leaderStopped() }) {
			t.Errorf("step %s: the fork does not end", step)
		}
	})
	switch {
	case code == failure.NothingSeen: // a starved victim launches nothing in so short a time
		record(t, v.PID).ok(t)
	case code != failure.OK || err != nil:
		t.Errorf("step %s: exit code %d: %v", step, code, err)
	}
	if said := v.Line(t); said != "7" {
		t.Errorf("step %s: the child ended with %s", step, said)
	}
	v.well(t)
	return forked
}

// leaderStopped: by a tracer.
func (v *gpuVictim) leaderStopped() bool {
	return strings.HasPrefix(statusOf(v.PID, strconv.Itoa(v.PID))["State"], "t")
}

// quiet steps are the steps at which no thread is held. At the others the pid cannot be reused: a
// traced thread, and with it the pid, exists until its tracer has reaped it.
var quiet = []inject.Point{
	inject.PointResolved, inject.PointMapped, inject.PointWritten, inject.PointCloned, inject.PointReady,
	inject.PointDelivered, inject.PointLoaded, inject.PointResolvedE, inject.PointCalled, inject.PointLeft,
}

// pidReused needs its own pid namespace, in which it can choose pids.
func pidReused(t *testing.T) string {
	cmd := exec.Command(os.Args[0], "-test.run=^TestPIDReused$", "-test.v")
	cmd.Env = append(os.Environ(), "RTL_MATRIX_NAMESPACE=1", "RTL_BUILD="+filepath.Dir(testenv.Artefact(t, "rtl-attach")))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Count(string(out), "the new process is untouched") != len(quiet) {
		t.Errorf("not every step was tested:\n%s", out)
	}
	return fmt.Sprintf("%d steps: the target killed, its pid given to another GPU process, which stays untouched", len(quiet))
}

// TestPIDReused is the inner part of pidReused: process 1 of a namespace.
func TestPIDReused(t *testing.T) {
	if os.Getenv("RTL_MATRIX_NAMESPACE") == "" {
		return
	}
	for _, mount := range []struct {
		source, target, fs string
		flags              uintptr
	}{
		{"none", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"proc", "/proc", "proc", 0},
	} {
		if err := unix.Mount(mount.source, mount.target, mount.fs, mount.flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range quiet {
		var heir *gpuVictim
		var code failure.ExitCode
		var err error
		for range 5 {
			old := onGPU(t, "plain")
			if code, err = attempt(t, old.PID, step, func() { heir = inherit(t, old) }); heir != nil {
				break
			}
		}
		if heir == nil {
			t.Fatal("no pid can be had again")
		}
		if code != failure.NotPermitted && code != failure.TargetExited {
			t.Errorf("step %s: exit code %d: %v", step, code, err)
		}
		clear(t, step, err, "no process has this pid (any more)")
		heir.untouched(t)
		t.Logf("step %s: exit %d, the new process is untouched", step, code)
		heir.Stop()
	}
}

// inherit ends a victim and starts another one with its pid. nil: a thread of this test has got
// the pid, and keeps it.
func inherit(t *testing.T, old *gpuVictim) *gpuVictim {
	old.Stop()
	for range 20 {
		last := []byte(strconv.Itoa(old.PID - 1))
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", last, 0); err != nil {
			t.Fatal(err)
		}
		if heir := onGPU(t, "plain"); heir.PID == old.PID {
			return heir
		}
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", old.PID)); err != nil {
		t.Fatalf("pid %d cannot be had again: %v", old.PID, err)
	}
	return nil
}
