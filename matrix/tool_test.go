package matrix

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/session"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/target/victim"
)

// Group D: faults of the tool.
var tool = []row{
	{"33", "tool killed at each named point", "unharmed; the next attach works and leaves nothing", killedAtPoints},
	{"34", "tool killed at random times", "unharmed; the next attach works and leaves nothing", toolKilledAtRandom},
	{"35a", "tool stopped for long", "the target goes on serving", toolStopped},
	{"35b", "tool stopped for longer than the bootstrap waits", "the bootstrap leaves by itself", bootstrapLeaves},
	{"36a", "two tools at once", "one wins, the other names it", twoTools},
	{"36b", "two injectors at once, without the lock", "neither harms the target", twoInjectors},
	{"37", "reattach cycles", "memory, maps, descriptors, threads flat", cycles},
	{"38a", "the tool has no memory", "unharmed", toolWithoutMemory},
	{"38b", "the tool is killed for its memory", "unharmed", toolOutOfMemory},
	{"38c", "the payload's memory is refused", "clear error; success with room again", payloadWithoutMemory},
}

// faultPoints are the steps of a recording at which a tool built for it dies
// or stops.
func faultPoints() (all []string) {
	for _, p := range session.Points[:2] {
		all = append(all, string(p))
	}
	for _, p := range inject.Points {
		all = append(all, string(p))
	}
	for _, p := range session.Points[2:] {
		all = append(all, string(p))
	}
	return all
}

// faulty starts a tool that does something to itself at a point.
func faulty(t *testing.T, pid int, fault string, args ...string) *run {
	t.Helper()
	r := prepared(t, "rtl-attach-fault", pid, append([]string{"-d", killWindow.String()}, args...)...)
	r.cmd.Env = append(os.Environ(), "RTL_FAULT="+fault)
	r.start(t)
	return r
}

// wasKilled reports whether a tool that has ended was killed.
func (r *run) wasKilled() bool {
	return r.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}

// killedAtPoints: 33. A victim suffers as many deaths as come before a payload
// is resident; in the long form it suffers one.
func killedAtPoints(t *testing.T) string {
	points := faultPoints()
	timed, victims := int64(0), 0
	each := repeat(4, 1)
	for i := 0; i < len(points); {
		v := mixed(t)
		victims++
		from := i
		for ; i < len(points) && i < from+each; i++ {
			r := faulty(t, v.PID, "kill@"+points[i], quickly)
			if r.wait(t); !r.wasKilled() {
				if i == from {
					t.Errorf("%s: not passed, exit code %d\n%s", points[i], r.code, r.stderr.String())
					i++
				}
				break // the payload is resident: the injector's points need a new victim
			}
			v.Unharmed(t)
			v.works(t)
		}
		timed += record(t, v.PID).ok(t)
		v.sound(t)
		v.Stop()
	}
	return fmt.Sprintf("%d points, %d victims; then %d dispatches timed", len(points), victims, timed)
}

// deaths of tools that one victim suffers.
const deaths = 5

func toolKilledAtRandom(t *testing.T) string {
	takes := whole(t)
	n := repeat(20, 1000)
	killed, timed := 0, int64(0)
	for i := 0; i < n && !t.Failed(); {
		v := mixed(t)
		for range min(deaths, n-i) {
			if killOnce(t, v, momentOf(i, takes)) {
				killed++
			}
			i++
		}
		timed += record(t, v.PID).ok(t)
		v.sound(t)
		v.Stop()
	}
	return fmt.Sprintf("%d tools, %d of them killed before their end; harmed 0; then %d dispatches timed", n, killed, timed)
}

func killOnce(t *testing.T, v *gpuVictim, after time.Duration) bool {
	t.Helper()
	r := recording(t, "rtl-attach", v.PID, "-d", killWindow.String(), quickly)
	death := time.AfterFunc(after, func() { _ = r.cmd.Process.Kill() })
	r.wait(t)
	death.Stop()
	v.Unharmed(t)
	v.works(t)
	r.removeTrace()
	return r.wasKilled()
}

// removeTrace keeps a long form from filling the disk.
func (r *run) removeTrace() {
	files, _ := filepath.Glob(r.trace + "*")
	for _, f := range files {
		_ = os.Remove(f)
	}
}

// Points at which the tool holds no thread of the target's.
var betweenStops = []string{
	"mapped", "written", "cloned", "ready", "delivered", "loaded", "entry-found", "called",
	"taken", "attached", "recording", "closing", "detached",
}

// toolStopped: 35. In the short form for 3 s, with a payload that waits for 500 ms.
func toolStopped(t *testing.T) string {
	points, nap, args := betweenStops, 10*time.Second, []string{}
	if testing.Short() {
		points, nap, args = []string{"written", "loaded", "recording"}, 3*time.Second, []string{quickly}
	}
	codes := map[int]int{}
	for _, p := range points {
		v := mixed(t)
		r := faulty(t, v.PID, "stop@"+p, args...)
		if !eventually(func() bool { return stateOf(r.cmd.Process.Pid) == "T" }) {
			t.Errorf("%s: the tool does not stop\n%s", p, r.stderr.String())
		}
		for until := time.Now().Add(nap); time.Now().Before(until); {
			v.Unharmed(t)
			v.works(t)
		}
		_ = r.cmd.Process.Signal(unix.SIGCONT)
		codes[r.wait(t)]++
		if !slices.Contains([]int{0, 1, 7}, r.code) {
			t.Errorf("%s: exit code %d\n%s", p, r.code, r.stderr.String())
		}
		record(t, v.PID).ok(t)
		v.sound(t)
		v.Stop()
	}
	return fmt.Sprintf("%d points, %v each: exit codes %v", len(points), nap, codes)
}

// bootstrapLeaves: the same for the injector, with a bootstrap of little patience.
func bootstrapLeaves(t *testing.T) string {
	v := victim.Start(t, "busy", "spin", "futex", "read")
	before := v.Inventory(t)
	left := 0
	for _, p := range []inject.Point{
		inject.PointMapped, inject.PointWritten, inject.PointCloned, inject.PointReady, inject.PointDelivered,
		inject.PointLoaded, inject.PointResolvedE, inject.PointCalled,
	} {
		undo := atPoint(p, func() { time.Sleep(300 * time.Millisecond) }) // the tool is held up
		_, err := injected(t, v, inject.Request{
			Library: library(t, "payload.so"), Entry: "rtl_attach", IdleTimeout: 50 * time.Millisecond,
		})
		undo()
		early, late := p == inject.PointMapped || p == inject.PointWritten, p == inject.PointCalled
		if early && err != nil || !early && !late && !errors.Is(err, inject.ErrLeft) {
			t.Errorf("%s: error %v", p, err)
		}
		if errors.Is(err, inject.ErrLeft) {
			left++
		}
		v.Unharmed(t)
		v.AsBefore(t, before)
	}
	return fmt.Sprintf("left %d times: %v", left, inject.ErrLeft)
}

func twoTools(t *testing.T) string {
	v := mixed(t)
	n := repeat(3, 50)
	for range n {
		won, lost := recording(t, "rtl-attach", v.PID), recording(t, "rtl-attach", v.PID)
		if won.wait(t); lost.wait(t) == 0 {
			won, lost = lost, won
		}
		won.ok(t)
		if said := lost.stderr.String(); lost.code != 3 || !strings.Contains(said, strconv.Itoa(won.cmd.Process.Pid)) {
			t.Errorf("the loser: exit code %d, it is to name pid %d\n%s", lost.code, won.cmd.Process.Pid, said)
		}
		v.sound(t)
	}
	return fmt.Sprintf("%d times: exit codes 0 and 3, the winner named", n)
}

// twoInjectors: the lock of package target is what keeps tools apart.
func twoInjectors(t *testing.T) string {
	v := victim.Start(t, "busy")
	before := v.Inventory(t)
	lib := library(t, "payload.so")
	results := make(chan error)
	n := repeat(20, 100)
	for range 2 {
		go func() {
			var all error
			for range n {
				_, err := injected(t, v, inject.Request{Library: lib, Entry: "rtl_attach"})
				if err != nil && !errors.Is(err, target.ErrTraced) && !errors.Is(err, inject.ErrTaken) { // by the other one
					all = errors.Join(all, err)
				}
			}
			results <- all
		}()
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	h := v.Unharmed(t)
	v.AsBefore(t, before)
	return fmt.Sprintf("2 × %d injections at once, harm %d", n, h.Harm)
}

// footprint is what must not grow.
type footprint struct{ kib, maps, fds, threads int }

func footprintOf(t *testing.T, pid int) (f footprint) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	_, _ = fmt.Sscan(rest, &f.kib)
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	f.maps, f.fds, f.threads = strings.Count(string(maps), "\n"), entries(t, pid, "fd"), entries(t, pid, "task")
	return f
}

// cycles: 37. The runtime keeps what it has got for our signals: it gets some
// cycles to have got it.
func cycles(t *testing.T) string {
	v := onGPU(t, "busy", "futex", "read", "sleep", "epoll")
	cycle := func(n int) {
		for range n {
			r := record(t, v.PID, "-d", "20ms")
			if r.code != 0 && r.code != 7 { // 7: nothing was launched in that time
				t.Fatalf("exit code %d\n%s", r.code, r.stderr.String())
			}
			r.removeTrace()
		}
	}
	cycle(repeat(5, 50))
	before := footprintOf(t, v.PID)
	n := repeat(20, 1000)
	cycle(n)
	v.sound(t)
	now := footprintOf(t, v.PID)
	if now.threads != before.threads || now.fds > before.fds || now.maps > before.maps+2 || now.kib > before.kib+512 {
		t.Errorf("%d cycles: %+v, now %+v", n, before, now)
	}
	return fmt.Sprintf("%d cycles: memory %d → %d KiB, maps %d → %d, descriptors %d → %d, threads %d → %d", n,
		before.kib, now.kib, before.maps, now.maps, before.fds, now.fds, before.threads, now.threads)
}

// toolWithoutMemory: 38a. Less and less address space for the tool, so that
// it dies at different moments.
func toolWithoutMemory(t *testing.T) string {
	codes := map[int]int{}
	for mib := 160; mib <= 1600; mib += repeat(240, 40) {
		v := mixed(t)
		r := prepared(t, "rtl-attach", v.PID, quickly)
		limited := []string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, mib<<10)}
		r.cmd.Args = append(limited, r.cmd.Args...)
		r.cmd.Path = "/bin/sh"
		r.start(t)
		codes[r.wait(t)]++
		v.Unharmed(t)
		v.works(t)
		record(t, v.PID).ok(t)
		v.sound(t)
		v.Stop()
	}
	return fmt.Sprintf("exit codes %v (2: the Go runtime's end), each followed by a good attach", codes)
}

// toolOutOfMemory: 38b. A control group in which the tool finds less and less.
func toolOutOfMemory(t *testing.T) string {
	v := mixed(t)
	codes := map[int]int{}
	for _, mib := range []int{4, 5, 6, 7, 8, 10, 12, 16} {
		r := prepared(t, "rtl-attach", v.PID, quickly)
		r.cmd.Args = append([]string{"/bin/sh", "-c", `read go; exec "$0" "$@"`}, r.cmd.Args...)
		r.cmd.Path = "/bin/sh"
		begin, err := r.cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		r.start(t)
		dir := cgroup(t, "memory", r.cmd.Process.Pid)
		if err := limitMemory(dir, mib<<20); err != nil {
			cannot(t, "no control group limits memory: "+err.Error())
		}
		_, _ = begin.Write([]byte("go\n"))
		codes[r.wait(t)]++
		v.Unharmed(t)
		v.works(t)
	}
	if codes[-1] == 0 {
		t.Errorf("the tool was never killed: exit codes %v", codes)
	}
	timed := record(t, v.PID).ok(t)
	v.sound(t)
	return fmt.Sprintf("exit codes %v (-1: killed); then %d dispatches timed", codes, timed)
}

// limitMemory knows both versions of control groups.
func limitMemory(dir string, bytes int) error {
	err := write(filepath.Join(dir, "memory.limit_in_bytes"), strconv.Itoa(bytes))
	if errors.Is(err, os.ErrNotExist) {
		return write(filepath.Join(dir, "memory.max"), strconv.Itoa(bytes))
	}
	return err
}

// lineOf is the rest of the first line that begins with a word.
func lineOf(text, word string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), word); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

func payloadWithoutMemory(t *testing.T) string {
	v := mixed(t)
	lib := artefact(t, "librtl-attach-test.so")
	var causes []string
	for _, step := range []string{"memory", "ring", "worker"} {
		r := record(t, v.PID, "--payload", lib, "--set", "RTL_TEST_FAIL_STEP="+step)
		if r.code != 1 {
			t.Errorf("%s: exit code %d\n%s", step, r.code, r.stderr.String())
		}
		causes = append(causes, lineOf(r.stderr.String(), "cause"))
		v.sound(t)
	}
	timed := record(t, v.PID, "--payload", lib).ok(t)
	v.sound(t)
	return fmt.Sprintf("%q; then %d dispatches timed", causes, timed)
}
