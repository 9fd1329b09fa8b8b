package faults

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/session"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// faultPoints are the steps of a recording at which the tests' build of the tool can die or stop.
func faultPoints() []string {
	return slices.Concat(names(testpoint.All[:2]), names(inject.Points), names(testpoint.All[2:]))
}

// faulty starts a tool with a fault at a point.
func faulty(t *testing.T, pid int, fault string, args ...string) *run {
	t.Helper()
	r := prepared(t, "rtl-attach-fault", pid, append([]string{"-d", killWindow.String()}, args...)...)
	r.Cmd.Env = append(os.Environ(), "RTL_FAULT="+fault)
	r.Start(t)
	return r
}

// wasKilled reports whether a tool that has ended was killed.
func (r *run) wasKilled() bool {
	return r.Cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}

// killedAtPoints: 33. Tools die at one victim until it has a resident payload; in the long form
// each victim has one such tool.
func killedAtPoints(t *testing.T) string {
	points := faultPoints()
	timed, victims, freed := int64(0), 0, 0
	each := repeat(4, 1)
	for i := 0; i < len(points); {
		v := mixed(t)
		victims++
		from := i
		for ; i < len(points) && i < from+each; i++ {
			r := faulty(t, v.PID, "kill@"+points[i], quickly)
			if r.Exit(t); !r.wasKilled() {
				if i == from {
					t.Errorf("%s: not passed, exit code %d\n%s", points[i], r.Code, r.Stderr.String())
					i++
				}
				break // the payload is resident: the injector's points need a new victim
			}
			v.Unharmed(t)
			v.works(t)
		}
		last := record(t, v.PID)
		timed += last.ok(t)
		freed += strings.Count(last.first+last.Stderr.String(), "that dead tools had left")
		v.sound(t)
		v.Stop()
	}
	if freed == 0 {
		t.Error("no dead tool's mapping was ever freed")
	}
	return fmt.Sprintf("%d points, %d victims, mappings of the dead freed in %d; then %d dispatches timed",
		len(points), victims, freed, timed)
}

// deaths is the number of tools that die at one victim.
const deaths = 5

func toolKilledAtRandom(t *testing.T) string {
	takes := whole(t)
	n := repeat(20, 1000)
	killed, finished, timed, harmed := 0, 0, int64(0), uint64(0)
	for killed < n && !t.Failed() {
		v := mixed(t)
		for range deaths {
			began := time.Now()
			if killOnce(t, v, momentOf(killed+finished, takes)) {
				killed++
			} else {
				finished++ // so that is all that it takes now
				takes = max(killWindow*3/2, min(takes, time.Since(began)))
			}
		}
		timed += record(t, v.PID).ok(t)
		v.sound(t)
		h := v.Health(t)
		harmed += h.Harm + h.EINTR + h.Mask + h.Early
		v.Stop()
	}
	return fmt.Sprintf("%d tools killed, %d were faster; harm %d; then %d dispatches timed", killed, finished, harmed, timed)
}

func killOnce(t *testing.T, v *gpuVictim, after time.Duration) bool {
	t.Helper()
	r := recording(t, "rtl-attach", v.PID, "-d", killWindow.String(), quickly)
	death := time.AfterFunc(after, func() { _ = r.Cmd.Process.Kill() })
	r.Exit(t)
	death.Stop()
	v.Unharmed(t)
	v.works(t)
	r.removeTrace()
	return r.wasKilled()
}

// removeTrace keeps a long form from filling the disk.
func (r *run) removeTrace() {
	files, _ := filepath.Glob(r.Trace + "*")
	for _, f := range files {
		_ = os.Remove(f)
	}
}

// Points at which the tool holds no thread of the target.
var betweenStops = []string{
	"mapped", "written", "cloned", "ready", "delivered", "loaded", "entry-found", "called",
	"taken", "attached", "recording", "closing", "detached",
}

// toolStopped: 35. In the short form for 3 s, with a payload that waits for 500 ms.
func toolStopped(t *testing.T) string {
	points, nap, args := betweenStops, 10*time.Second, []string{}
	if short() {
		points, nap, args = []string{"written", "loaded", "recording"}, 3*time.Second, []string{quickly}
	}
	codes := map[int]int{}
	for _, p := range points {
		v := mixed(t)
		r := faulty(t, v.PID, "stop@"+p, args...)
		if !hang.Eventually(func() bool { return stateOf(r.Cmd.Process.Pid) == "T" }) {
			t.Errorf("%s: the tool does not stop\n%s", p, r.Stderr.String())
		}
		for until := time.Now().Add(nap); time.Now().Before(until); {
			v.Unharmed(t)
			v.works(t)
		}
		r.Signal(t, unix.SIGCONT)
		codes[r.Exit(t)]++
		if !slices.Contains([]int{0, 1, 7}, r.Code) {
			t.Errorf("%s: exit code %d\n%s", p, r.Code, r.Stderr.String())
		}
		record(t, v.PID).ok(t)
		v.sound(t)
		v.Stop()
	}
	return fmt.Sprintf("%d points, %v each: exit codes %v", len(points), nap, codes)
}

// stoppedHolding: 35d. After ptrace.HoldLimit a timer of the kernel kills the tool.
func stoppedHolding(t *testing.T) string {
	points := []string{"seized", "stopped", "framed", "set", "masked", "stopped-2", "framed-2", "masked-2"}
	if short() {
		points = []string{"framed"}
	}
	for _, p := range points {
		v := mixed(t)
		r := faulty(t, v.PID, "stop@"+p, quickly)
		if r.Exit(t); !r.wasKilled() || !r.HasSaid("made to stop at "+p) {
			t.Errorf("%s: exit code %d\n%s", p, r.Code, r.Stderr.String())
		}
		v.Unharmed(t)
		v.works(t)
		record(t, v.PID).ok(t)
		v.sound(t)
		v.Stop()
	}
	return fmt.Sprintf("%d points: each tool killed after %v", len(points), ptrace.HoldLimit)
}

// shutDownUnread: 35c. The tool has attached, and stops before it opens the ring.
func shutDownUnread(t *testing.T) string {
	cmd := exec.Command(testenv.Artefact(t, "workloads/hsastress"),
		"--threads", "2", "--queues", "1", "--pace", "20", "--seconds", "30", "--cycles", "30")
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+testenv.Artefact(t, "libsoftgpu.so"))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if ready, err := bufio.NewReader(out).ReadString('\n'); !strings.HasPrefix(ready, "ready") {
		t.Fatalf("it says %q: %v", ready, err)
	}
	r := faulty(t, cmd.Process.Pid, "stop@attached", "-d", "8s")
	if !hang.Eventually(func() bool { return stateOf(r.Cmd.Process.Pid) == "T" }) {
		t.Fatalf("the tool does not stop\n%s", r.Stderr.String())
	}
	if !hang.Eventually(func() bool { return residueOf(t, cmd.Process.Pid).rings == 0 }) {
		t.Errorf("the ring outlives its runtime")
	}
	r.Signal(t, unix.SIGCONT)
	r.Exit(t)
	timed := r.ok(t)
	said := lineOf(r.Stderr.String(), "rtl-attach: warning: "+session.CauseMissed+" (the application shut its ROCm runtime down)")
	if said == "" {
		t.Errorf("nothing is said to be missing\n%s", r.Stderr.String())
	}
	return fmt.Sprintf("%q; then %d dispatches timed", said, timed)
}
