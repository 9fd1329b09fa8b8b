package faults

import (
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// Group B: states of the process.
var process = []row{
	{"16", "SIGSTOPped", "refused, stays stopped", sigstopped},
	{"17", "zombie leader", "attached through a sibling", zombieLeader},
	{"18", "zombie", "refused: it has exited", zombie},
	{"19", "vfork parent", "attached through another thread", vforkParent},
	{"20a", "all threads frozen in D", "given up, none left traced", frozen},
	{"20b", "a lone vfork parent", "given up, not left traced", vforkAlone},
	{"21a", "strace attached", "refused, strace and its pid named", stracer},
	{"21b", "gdb attached", "refused, gdb and its pid named", debugger},
	{"22", "exec at each step", "aborted, the new program untouched", execAtEachStep},
	{"23", "fork at each step", "the children are sane", forkAtEachStep},
	{"24", "exit at each step", "a clear error", exitAtEachStep},
	{"25", "10,000 threads a second", "injected, attached", manyThreads},
	{"26", "pid re-used at each step that holds no thread", "refused, the new process untouched", pidReused},
}

func sigstopped(t *testing.T) string {
	v := onGPU(t, "busy")
	send(t, v.PID, unix.SIGSTOP)
	all(t, v.PID, "T")
	said := refused(t, v.PID, failure.NotPermitted, "kill -CONT", "target  not touched")
	all(t, v.PID, "T")
	send(t, v.PID, unix.SIGCONT)
	v.works(t)
	v.asFound(t)
	timed := record(t, v.PID).ok(t)
	v.works(t)
	v.onlyDormant(t)
	return fmt.Sprintf("%s; still stopped; once continued, %d dispatches timed", said, timed)
}

func send(t *testing.T, pid int, sig unix.Signal) {
	t.Helper()
	if err := unix.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

func zombieLeader(t *testing.T) string {
	cmd := exec.Command(victim.Path(t, "zombie"))
	count := gpuEnv(t, cmd)
	// The simulator's process would take a leader without memory for an exec.
	cmd.Env = append(cmd.Env, "SOFTGPU_ENGINE=thread")
	v := gpuRun(t, cmd, count)
	var state string
	if !hang.Eventually(func() bool {
		state = statusOf(v.PID, strconv.Itoa(v.PID))["State"]
		return strings.HasPrefix(state, "Z")
	}) {
		t.Fatalf("the leader is %s: nothing is tested", state)
	}
	r := record(t, v.PID)
	timed := r.ok(t)
	v.well(t)
	return fmt.Sprintf("leader in state Z, thread %s stopped instead, %d dispatches timed", stoppedThreads(r), timed)
}

// stoppedThreads returns the stopped threads by the output of --verbose.
func stoppedThreads(r *run) string {
	var tids []string
	for line := range strings.Lines(r.Stderr.String()) {
		if _, rest, ok := strings.Cut(line, "stopped thread "); ok {
			tid, _, _ := strings.Cut(rest, " ")
			if len(tids) == 0 || tids[len(tids)-1] != tid {
				tids = append(tids, tid)
			}
		}
	}
	return strings.Join(tids, ", ")
}

func zombie(t *testing.T) string {
	v := onGPU(t, "plain")
	send(t, v.PID, unix.SIGKILL)
	all(t, v.PID, "Z")
	return refused(t, v.PID, failure.NotPermitted, "it has exited", "target  not touched")
}

func vforkParent(t *testing.T) string {
	v := onGPU(t, "odd")
	v.Tell(t, "v")
	main := strconv.Itoa(v.PID)
	if !hang.Eventually(func() bool { return strings.HasPrefix(statusOf(v.PID, main)["State"], "D") }) {
		t.Fatal("the victim does not wait for its vfork child")
	}
	r := record(t, v.PID)
	timed := r.ok(t)
	if state := statusOf(v.PID, main)["State"]; !strings.HasPrefix(state, "D") {
		t.Errorf("the vfork parent is %s after the attach", state)
	}
	if said := v.Ask(t, "e"); said != "0" {
		t.Errorf("its child ended with %s", said)
	}
	v.well(t)
	return fmt.Sprintf("main thread in D throughout, thread %s stopped instead, %d dispatches timed, its child ended with 0",
		stoppedThreads(r), timed)
}

func frozen(t *testing.T) string {
	v := onGPU(t, "odd") // the freezer itself makes epoll_wait return EINTR
	thaw := freeze(t, v.PID)
	all(t, v.PID, "D")
	said := refused(t, v.PID, failure.Failed, "uninterruptible", "target  as found")
	all(t, v.PID, "D")
	thaw()
	v.works(t)
	v.asFound(t)
	timed := record(t, v.PID).ok(t)
	v.well(t)
	return fmt.Sprintf("%s; once thawed, %d dispatches timed", said, timed)
}

func vforkAlone(t *testing.T) string {
	v := victim.Start(t, "mapped") // with the runtime, but no thread of its
	v.Tell(t, "v")
	all(t, v.PID, "D")
	said := refused(t, v.PID, failure.Failed, "uninterruptible", "target  as found")
	if answer := v.Ask(t, "e"); answer != "0" {
		t.Errorf("its child ended with %s", answer)
	}
	untraced(t, v.PID)
	return said + "; its child ended with 0"
}

func stracer(t *testing.T) string {
	v := onGPU(t, "plain")
	return debugged(t, v, exec.Command("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=none", "-p", strconv.Itoa(v.PID)))
}

func debugger(t *testing.T) string {
	v := onGPU(t, "plain")
	return debugged(t, v, exec.Command("gdb", "-nx", "-q", "-p", strconv.Itoa(v.PID)))
}

func debugged(t *testing.T, v *gpuVictim, tracer *exec.Cmd) string {
	t.Helper()
	in, err := tracer.StdinPipe() // held open: gdb ends with it
	if err == nil {
		err = tracer.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tracer.Process.Kill(); _ = tracer.Wait() }()
	pid := strconv.Itoa(tracer.Process.Pid)
	if !hang.Eventually(func() bool { return allTraced(v.PID, pid) }) {
		t.Fatalf("%s traces nothing", tracer.Path)
	}
	said := record(t, v.PID).refusal(t, failure.NotPermitted, fmt.Sprintf("%s (pid %s)", tracer.Args[0], pid),
		"quit "+tracer.Args[0], "target  not touched")
	if !allTraced(v.PID, pid) {
		t.Error("its tracer has lost it")
	}
	_ = in.Close() // gdb ends with it, and detaches
	if tracer.Args[0] == "strace" {
		send(t, tracer.Process.Pid, unix.SIGTERM)
	}
	_ = tracer.Wait()
	v.untouched(t)
	timed := record(t, v.PID).ok(t)
	v.well(t)
	return fmt.Sprintf("%s; without it, %d dispatches timed", said, timed)
}

func allTraced(pid int, by string) bool {
	for _, tid := range threadsOf(pid) {
		if statusOf(pid, tid)["TracerPid"] != by {
			return false
		}
	}
	return true
}

// manyThreads: four threads constantly create threads that end at once: 50,000 a second on two
// idle processors. The injector meets some of them.
func manyThreads(t *testing.T) string {
	kinds := []string{"thread", "thread", "thread", "thread", "futex"}
	v := victim.Start(t, "busy", kinds...)
	before := v.Inventory(t)
	var r *stateReport
	injecting := threadsASecond(t, v, func() { r = injections(t, v, repeat(10, 200)) })
	r.health = v.Unharmed(t)
	if !hang.Eventually(func() bool { now := v.Inventory(t); return now.FDs == before.FDs && len(now.Ours) == 0 }) {
		t.Errorf("left in it: %+v; it was %+v", v.Inventory(t), before)
	}
	v.Stop()
	g := onGPU(t, "busy", kinds...)
	var a attaches
	recording := threadsASecond(t, g.Victim, func() { a = g.recorded(t, repeat(3, 200)) })
	g.sound(t)
	return fmt.Sprintf("%v, %s; %v, %s", r, injecting, a, recording)
}

// threadsASecond returns how many threads a second the victim creates while f runs. The number
// depends on the machine.
func threadsASecond(t *testing.T, v *victim.Victim, f func()) string {
	t.Helper()
	const wanted, least = 10000, 100
	before, began := threadsMade(t, v), time.Now()
	f()
	made := threadsMade(t, v) - before
	rate := float64(made) / time.Since(began).Seconds()
	said := fmt.Sprintf("%.0f threads made a second", rate)
	if made < least {
		t.Errorf("%d threads made: the victim does not do its work", made)
	}
	if rate < wanted {
		said += fmt.Sprintf(" (this machine has %d processors, and others use them: no more could be had)", runtime.NumCPU())
	}
	return said
}

func threadsMade(t *testing.T, v *victim.Victim) (n uint64) {
	t.Helper()
	for _, th := range v.Health(t).Threads {
		if th.Kind == "thread" {
			n += th.Beats
		}
	}
	return n
}
