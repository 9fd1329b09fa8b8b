package faults

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// way is a path of the tool through its steps, other than the attach to an untouched target with
// threads of every kind (fault_test.go). The tests try every fault at every point of it, each in
// a new target.
type way struct {
	begin   func(*testing.T) *scene
	points  []string
	short   []string // faults, as ACTION@POINT: those of the short form
	goesOn  []string // points at which a failure ends nothing,
	whole   int      // and its exit code then
	codes   []int    // of a tool that fails
	murders []int    // of one whose target is killed; nil: 3 and 5
}

// scene is a target with a tool that will pass the points.
type scene struct {
	*gpuVictim
	first   string           // a fault on the way to them
	tool    *run             // not started
	other   *gpuVictim       // or nil
	healthy func(*testing.T) // nil: Unharmed
	end     func(*testing.T) // of what may be left, before the next attach; may be nil
}

func (w way) run(t *testing.T) string {
	faults := w.short
	if !short() {
		faults = nil
		for _, action := range []string{"kill", "fail", "hang", "murder"} {
			for _, p := range w.points {
				faults = append(faults, action+"@"+p)
			}
		}
	}
	codes := map[string]map[int]int{}
	for _, fault := range faults {
		action, point, _ := strings.Cut(fault, "@")
		if codes[action] == nil {
			codes[action] = map[int]int{}
		}
		codes[action][w.suffer(t, action, point)]++
	}
	return fmt.Sprintf("%d faults: exit codes %v", len(faults), codes)
}

// suffer returns the tool's exit code. If the wait of the stopped thread has just ended, the
// thread runs and is not held: then suffer repeats with another tool and target.
func (w way) suffer(t *testing.T, action, point string) int {
	t.Helper()
	tries := 1
	if slices.Contains(inject.HeldPoints, inject.Point(point)) || slices.Contains(inject.HeldUndoPoints, inject.Point(point)) {
		tries = 20
	}
	var r *run
	for passed := false; !passed; tries-- {
		if tries == 0 {
			t.Errorf("%s@%s: not passed\n%s", action, point, r.Stderr.String())
			break
		}
		r, passed = w.struck(t, action, point)
	}
	return r.Code
}

// struck returns an ended tool, and whether it has passed the point.
func (w way) struck(t *testing.T, action, point string) (r *run, passed bool) {
	t.Helper()
	s := w.begin(t)
	defer s.stop()
	r = s.tool
	r.Cmd.Env = append(os.Environ(), "RTL_FAULT="+s.first+","+action+"@"+point, fmt.Sprintf("RTL_FAULT_PID=%d", s.PID))
	r.Start(t)
	if action == "hang" {
		s.hangs(t, r, point)
	} else {
		r.Exit(t)
	}
	said, want := r.Stderr.String(), w.undisturbed()
	if passed = strings.Contains(said, "made to "+action+" at "+point); passed {
		want = w.expected(action, point)
	}
	if !slices.Contains(want, r.Code) {
		t.Errorf("%s@%s: exit code %d, want one of %v\n%s", action, point, r.Code, want, said)
	}
	if action != "murder" || !passed {
		s.recovers(t)
	}
	return r, passed
}

// expected exit codes; -1: killed.
func (w way) expected(action, point string) []int {
	switch {
	case action == "murder" && w.murders != nil:
		return w.murders
	case action == "murder" && slices.Contains(afterDetach, point):
		return goneWell
	case action == "murder":
		return []int{3, 5}
	case action == "hang" && slices.Contains(holdingThread(), point):
		return []int{1}
	case action == "hang", action == "kill":
		return []int{-1}
	case slices.Contains(w.goesOn, point):
		return w.undisturbed()
	case point == "taken": // an entry that runs is looked for again
		return slices.Concat(goneWell, w.codes)
	}
	return w.codes
}

// undisturbed are the exit codes of a tool that continues after a fault.
func (w way) undisturbed() []int {
	if w.whole == 0 {
		return goneWell
	}
	return []int{w.whole}
}

// hangs: a tool that holds a thread ends by itself, any other when its user ends it.
func (s *scene) hangs(t *testing.T, r *run, point string) {
	t.Helper()
	_ = hang.Eventually(func() bool { return r.HasSaid("made to hang at") })
	if slices.Contains(holdingThread(), point) {
		r.Exit(t)
		return
	}
	s.well(t)
	r.interruptUntilGone(t)
}

func (s *scene) well(t *testing.T) {
	t.Helper()
	if s.healthy != nil {
		s.healthy(t)
	} else {
		s.Unharmed(t)
	}
	untraced(t, s.PID)
	s.works(t)
}

func (s *scene) stop() {
	s.Stop()
	if s.other != nil {
		s.other.Stop()
	}
}

// recovers checks that the target is unharmed and can be recorded, and then has nothing of the
// tool but a dormant payload.
func (s *scene) recovers(t *testing.T) {
	t.Helper()
	s.well(t)
	if s.end != nil {
		s.end(t)
	}
	record(t, s.PID).ok(t)
	s.well(t)
	s.onlyDormant(t)
}

// sceneOf returns the scene of an attach to a victim.
func sceneOf(t *testing.T, v *gpuVictim, args ...string) *scene {
	t.Helper()
	return &scene{
		gpuVictim: v,
		tool:      prepared(t, "rtl-attach-fault", v.PID, append([]string{"-d", killWindow.String(), quickly}, args...)...),
	}
}

func names[P ~string](points []P) (list []string) {
	for _, p := range points {
		list = append(list, string(p))
	}
	return list
}

func inTimedWaits(t *testing.T) *gpuVictim {
	t.Helper()
	return onGPU(t, "busy", "-o", "poll", "sleep", "poll", "timedfutex", "sleep")
}

// held: all threads are in waits with a time-out.
var held = way{
	begin: func(t *testing.T) *scene {
		return sceneOf(t, inTimedWaits(t))
	},
	codes:  []int{1},
	points: slices.Concat(names(inject.Points), names(inject.HeldPoints)),
	short: []string{
		"kill@held-entry", "kill@held-exit", "kill@held-back", "kill@held-entry-2", "kill@held-exit-2", "kill@held-back-2",
		"kill@held-unmasked", "fail@held-unmasked-2", "fail@held-exit", "fail@held-exit-2", "murder@held-entry",
	},
	goesOn: []string{"held-unmasked", "held-back", "held-entry-2", "held-exit-2", "held-unmasked-2", "held-back-2"},
}

// heldPolls: all threads are in epoll_wait, where an interrupt alone returns EINTR.
var heldPolls = way{
	begin: func(t *testing.T) *scene {
		return sceneOf(t, onGPU(t, "busy", "-o", "epoll", "epoll1", "epoll", "epoll1", "epoll"))
	},
	codes:  []int{1},
	points: names(inject.HeldPoints),
	short:  []string{"kill@held-back", "kill@held-unmasked-2", "kill@held-back-2"},
	goesOn: []string{"held-unmasked", "held-back", "held-entry-2", "held-exit-2", "held-unmasked-2", "held-back-2"},
}

// undone: the attach fails when it has mapped memory, and again when it unmaps that.
var undone = way{
	begin: func(t *testing.T) *scene {
		s := sceneOf(t, mixed(t))
		s.first = "fail@mapped"
		return s
	},
	points: names(inject.UndoPoints),
	short:  []string{"kill@set-3", "fail@framed-3"},
	codes:  []int{6},
}

// undoneHeld: the same, with all threads in waits with a time-out. After the thread has entered
// the call, nothing remains, whatever fails.
var undoneHeld = way{
	begin: func(t *testing.T) *scene {
		s := sceneOf(t, inTimedWaits(t))
		s.first = "fail@mapped"
		return s
	},
	points: names(slices.Concat(inject.UndoPoints, inject.HeldUndoPoints)),
	short:  []string{"kill@held-entry-3", "kill@held-back-3", "fail@held-exit-3"},
	codes:  []int{6},
	goesOn: names(inject.HeldUndoPoints),
	whole:  1,
}

// inFilters: all threads have a seccomp filter, which the tool reads first.
var inFilters = way{
	begin: func(t *testing.T) *scene {
		v := onGPU(t, "odd", "reboot=kill", "mallocs")
		if answer := v.Ask(t, "s"); answer != "0" {
			cannot(t, "no seccomp filter can be installed")
		}
		s := sceneOf(t, v)
		s.healthy = func(t *testing.T) { v.well(t) }
		return s
	},
	codes:  []int{1},
	points: names(inject.FilterPoints),
	short:  []string{"kill@filter-stopped", "fail@filter-stopped"},
}

// inGrace: running threads that block a signal with a handler may be in the handler; only a stop
// can show it.
var inGrace = way{
	begin: func(t *testing.T) *scene {
		const timers = "42" // SIGRTMIN+8
		cmd := exec.Command("env", "--block-signal="+timers, victim.Path(t, "busy"), "spin", "timer", "spin", "futex", "read")
		return sceneOf(t, gpuRun(t, cmd, gpuEnv(t, cmd)))
	},
	points: names([]testpoint.Point{testpoint.Asked, testpoint.Grace}),
	short:  []string{"kill@grace-stopped", "fail@grace-stopped"},
	goesOn: names([]testpoint.Point{testpoint.Asked, testpoint.Grace}),
}

// again: the payload is resident and dormant.
var again = way{
	begin: func(t *testing.T) *scene {
		v := mixed(t)
		record(t, v.PID).ok(t)
		return sceneOf(t, v)
	},
	codes:  []int{1},
	points: append(names(testpoint.All), string(testpoint.Ordered)),
	short:  []string{"kill@ordered", "fail@ordered", "hang@ordered"},
}

// withCopies: copies are recorded, too.
var withCopies = way{
	begin:  func(t *testing.T) *scene { return sceneOf(t, mixed(t), "--memory-copy-trace") },
	codes:  []int{1},
	points: names(testpoint.All),
	short:  []string{"kill@recording", "kill@ending"},
}

// inGroup: two targets; the fault strikes one of them, or both with their tool.
var inGroup = way{
	begin: func(t *testing.T) *scene {
		v, other := onGPU(t, "busy", "futex", "read", "sleep"), onGPU(t, "busy", "futex", "read", "poll")
		s := sceneOf(t, v, "-p", strconv.Itoa(other.PID))
		s.other = other
		s.end = func(t *testing.T) {
			record(t, other.PID).ok(t)
			other.sound(t)
		}
		return s
	},
	points:  faultPoints(),
	short:   []string{"kill@recording", "fail@framed-2", "murder@recording"},
	codes:   []int{1, 8},
	murders: append([]int{8}, goneWell...),
}

// detached: the session has no recorder; `rtl-attach detach` ends it.
var detached = way{
	begin: func(t *testing.T) *scene {
		v := mixed(t)
		r := faulty(t, v.PID, "kill@recording", "--set=RTL_RECORDER_TIMEOUT_MS=60000")
		if r.Exit(t); !r.wasKilled() {
			t.Fatalf("exit code %d\n%s", r.Code, r.Stderr.String())
		}
		s := &scene{gpuVictim: v, tool: newRun(t, "rtl-attach-fault", "detach", strconv.Itoa(v.PID))}
		s.end = func(t *testing.T) { detachFrom(t, v.PID) }
		return s
	},
	codes:   []int{1},
	points:  names(testpoint.OfDetach),
	murders: []int{0}, // nothing is attached any more
	short:   []string{"kill@ending", "fail@closing", "hang@ending"},
}

// stopping: there is a recorder, and it is asked to finish.
var stopping = way{
	begin: func(t *testing.T) *scene {
		v := mixed(t)
		recorder := recording(t, "rtl-attach", v.PID, "-d", hang.Limit.String())
		if !recorder.attaches() {
			t.Fatalf("it does not attach\n%s", recorder.Stderr.String())
		}
		v.works(t) // so that it has something to record
		s := &scene{gpuVictim: v, tool: newRun(t, "rtl-attach-fault", "detach", strconv.Itoa(v.PID))}
		s.end = func(t *testing.T) {
			recorder.Exit(t)
			recorder.ok(t)
		}
		return s
	},
	codes:   []int{1},
	points:  names([]testpoint.Point{testpoint.Stopping}),
	murders: []int{0}, // nothing is attached any more
	short:   []string{"kill@stopping"},
}

// detachFrom ends a remaining session.
func detachFrom(t *testing.T, pid int) {
	t.Helper()
	r := newRun(t, "rtl-attach", "detach", strconv.Itoa(pid))
	r.Start(t)
	if code := r.Exit(t); code != 0 {
		t.Errorf("detach: exit code %d\n%s", code, r.Stderr.String())
	}
}
