package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// Group C: signals, to the target and to the tool.
var signals = []row{
	{"27", "real-time signal storm", "none lost", storm},
	{"28a", "SIGTRAP ignored", "stays so", trap("trapignored")},
	{"28b", "SIGTRAP blocked", "stays so", trap("trapblocked")},
	{"28c", "SIGTRAP handled", "the program's own arrive, no others", trap("traphandled")},
	{"29a", "SIGSTOP in mid-stop", "honoured: it stays stopped until SIGCONT, then sound", stoppedInMidStop},
	{"29b", "SIGSTOP and SIGCONT during an attach", "honoured; the tool ends as documented", stoppedAtRandom},
	{"30", "timers at 10 kHz", "no expiration lost", state{
		args: "timer read futex", short: 10, long: 100, check: everyTick,
	}.run},
	{"31a", "SIGKILL in mid-stop", "the tool says that it is gone", killedInMidStop},
	{"31b", "SIGKILL during an attach", "the tool returns", killedAtRandom},
	{"32", "SIGINT, SIGTERM, SIGHUP, SIGPIPE to the tool", "rolled back", interrupted},
}

func storm(t *testing.T) string {
	s := state{args: "read storm futex read futex", short: 10, long: 200, whole: 200}
	total := uint64(0)
	s.check = func(t *testing.T, r *stateReport) {
		if r.health.RTSent != r.health.RTGot {
			t.Errorf("%d of %d real-time signals lost", r.health.RTSent-r.health.RTGot, r.health.RTSent)
		}
		total += r.health.RTSent
	}
	text := s.run(t)
	return fmt.Sprintf("%d signals sent and received; %s", total, text)
}

// trap tests both ways of injection: with held threads, and with released threads (unless the one
// in a futex wait has just been woken).
func trap(kind string) func(*testing.T) string {
	return func(t *testing.T) string {
		held := state{args: "-o poll sleep " + kind + " sleep", short: 5, long: 50}
		text := held.inject(t, repeat(held.short, held.long)).String()
		return text + "; " + state{args: "read " + kind + " futex", rung: "released", short: 5, long: 50}.run(t)
	}
}

func everyTick(t *testing.T, r *stateReport) {
	t.Helper()
	const late = 20 // expirations: the last are on their way
	var h victim.Health
	if !hang.Eventually(func() bool {
		h = r.v.Health(t)
		return h.TimerDue <= h.TimerTicks+late
	}) {
		t.Errorf("%d of %d expirations lost", h.TimerDue-h.TimerTicks, h.TimerDue)
	}
}

// atPoint calls do when the injector passes a point.
func atPoint(p inject.Point, do func()) (undo func()) {
	inject.Fault = func(now inject.Point) error {
		if now == p {
			do()
		}
		return nil
	}
	return func() { inject.Fault = nil }
}

// Between the first stop and the last message.
func midPoints() []inject.Point { return inject.Points[1 : len(inject.Points)-1] }

func stoppedInMidStop(t *testing.T) string {
	reached := 0
	for _, p := range midPoints() {
		v := victim.Start(t, "busy", "futex", "read", "sleep")
		stoppedOnce(t, v, p)
		v.Stop()
		reached++
	}
	return fmt.Sprintf("stopped at each of %d points", reached)
}

func stoppedOnce(t *testing.T, v *victim.Victim, p inject.Point) {
	t.Helper()
	before := v.Inventory(t)
	reached := false
	undo := atPoint(p, func() {
		if !reached {
			reached = true
			_ = unix.Kill(v.PID, unix.SIGSTOP)
		}
	})
	defer undo()
	const soon = 200 * time.Millisecond
	var err error
	hang.Eventually(func() bool { // a starved one may have given up before
		_, err = injected(t, v, inject.Request{
			Library: library(t, "payload.so"), Entry: "rtl_attach",
			MapTimeout: soon, BootTimeout: soon, LoadTimeout: soon, EntryTimeout: soon, IdleTimeout: soon,
		})
		return reached
	})
	undo()
	if !hang.Eventually(func() bool { return stateOf(v.PID) == "T" }) {
		t.Errorf("%s: state %s: it was to stay stopped (%v)", p, stateOf(v.PID), err)
	}
	if err := unix.Kill(v.PID, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	v.Unharmed(t)
	// A thread may still be on its way to map what the next attach frees.
	if !hang.Eventually(func() bool {
		_, err := injected(t, v, inject.Request{Library: library(t, "payload.so"), Entry: "rtl_attach"})
		if err != nil {
			t.Errorf("%s: the next attach: %v", p, err)
		}
		return len(v.Inventory(t).Ours) == 0
	}) {
		t.Errorf("%s: mappings of ours stay", p)
	}
	v.Unharmed(t)
	v.AsBefore(t, before)
}

// killWindow is the length of the recordings below.
const killWindow = 100 * time.Millisecond

// quickly makes a payload notice a dead recorder soon. Under load it may also take a live one for
// dead.
const quickly = "--set=RTL_RECORDER_TIMEOUT_MS=500"

// momentOf returns a moment in a run of the tool: a third of all are in the attach, and the last
// third of these in its first milliseconds.
func momentOf(n int, whole time.Duration) time.Duration {
	within := whole
	switch n % 6 {
	case 0, 1:
		within = whole - killWindow
	case 2:
		within = 8 * time.Millisecond
	}
	return time.Duration(rand.Int64N(int64(within)))
}

// mixed starts a victim with threads of most kinds.
func mixed(t *testing.T) *gpuVictim {
	t.Helper()
	return onGPU(t, "busy", "futex", "read", "malloc", "epoll", "epoll1", "recv", "sleep", "poll", "ppoll", "select",
		"timedfutex", "cond", "sigtimedwait", "sigsuspend", "altstack")
}

// whole is the length of a normal run.
func whole(t *testing.T) time.Duration {
	t.Helper()
	v := mixed(t)
	defer v.Stop()
	began := time.Now()
	record(t, v.PID, "-d", killWindow.String()).ok(t)
	return time.Since(began)
}

func stoppedAtRandom(t *testing.T) string {
	takes := whole(t)
	// No waits in which the signal itself means EINTR (signal(7)).
	v := onGPU(t, "busy", "futex", "read", "malloc", "sleep", "poll", "select", "timedfutex", "cond", "altstack")
	codes := map[int]int{}
	for i := range repeat(6, 100) {
		r := recording(t, "rtl-attach", v.PID, "-d", killWindow.String(), quickly)
		stop := time.AfterFunc(momentOf(i, takes), func() { stopBriefly(v.PID) })
		r.Exit(t)
		stop.Stop()
		_ = unix.Kill(v.PID, unix.SIGCONT)
		codes[r.Code]++
		if !slices.Contains([]int{0, 1, 3, 6, 7}, r.Code) {
			t.Errorf("exit code %d\n%s", r.Code, r.Stderr.String())
		}
		v.Unharmed(t)
		v.works(t)
	}
	record(t, v.PID).ok(t)
	v.sound(t)
	return fmt.Sprintf("exit codes %v", codes)
}

// stopBriefly stops a process for about 50 ms.
func stopBriefly(pid int) {
	_ = unix.Kill(pid, unix.SIGSTOP)
	time.AfterFunc(50*time.Millisecond, func() { _ = unix.Kill(pid, unix.SIGCONT) })
}

func killedInMidStop(t *testing.T) string {
	for _, p := range midPoints() {
		v := victim.Start(t, "busy", "futex", "read", "sleep")
		undo := atPoint(p, func() { _ = unix.Kill(v.PID, unix.SIGKILL) })
		_, err := injected(t, v, inject.Request{Library: library(t, "payload.so"), Entry: "rtl_slow"})
		undo()
		if !errors.Is(err, target.ErrGone) && (p != inject.PointCalled || err != nil) {
			t.Errorf("%s: error %v, want %v", p, err, target.ErrGone)
		}
		v.Stop()
	}
	return fmt.Sprintf("killed at each of %d points: %v", len(midPoints()), target.ErrGone)
}

func killedAtRandom(t *testing.T) string {
	takes := whole(t)
	codes := map[int]int{}
	var longest time.Duration
	n := repeat(6, 60)
	for i := range n {
		v := onGPU(t, "busy", "futex", "read", "sleep", "malloc")
		r := recording(t, "rtl-attach", v.PID, "-d", hang.Limit.String())
		killed := make(chan time.Time, 1)
		time.AfterFunc(momentOf(i, takes), func() {
			killed <- time.Now()
			_ = unix.Kill(v.PID, unix.SIGKILL)
		})
		r.Exit(t)
		longest = max(longest, time.Since(<-killed))
		codes[r.Code]++
		if !slices.Contains([]int{1, 3, 5}, r.Code) {
			t.Errorf("exit code %d\n%s", r.Code, r.Stderr.String())
		}
		v.Stop()
	}
	return fmt.Sprintf("%d kills, the tool returned after %v at most, exit codes %v", n, longest.Round(time.Millisecond), codes)
}

func interrupted(t *testing.T) string {
	takes := whole(t)
	list := []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE}
	codes := map[int]int{}
	n := repeat(8, 200)
	for i := 0; i < n; {
		v := mixed(t)
		for range min(4, n-i) {
			sig := list[i%len(list)]
			codes[interruptOnce(t, v, sig, momentOf(i, takes))]++
			i++
		}
		record(t, v.PID).ok(t)
		v.sound(t)
		v.Stop()
	}
	return fmt.Sprintf("%d signals, exit codes %v (-1: before the tool had done anything)", n, codes)
}

func interruptOnce(t *testing.T, v *gpuVictim, sig unix.Signal, after time.Duration) int {
	t.Helper()
	r := recording(t, "rtl-attach", v.PID, "-d", killWindow.String())
	signal := time.AfterFunc(after, func() { _ = r.Cmd.Process.Signal(sig) })
	r.Exit(t)
	signal.Stop()
	said := r.Stderr.String()
	if untouched := r.Code == -1 && said == ""; !untouched && !slices.Contains([]int{0, 1, 7}, r.Code) {
		t.Errorf("%v after %v: exit code %d\n%s", sig, after, r.Code, said)
	}
	if r.Code == 1 && !strings.Contains(said, "as found") && !strings.Contains(said, "not touched") {
		t.Errorf("%v after %v: it does not say that it has rolled back\n%s", sig, after, said)
	}
	v.sound(t)
	return r.Code
}
