package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// Group A: states of threads.
var threads = []row{
	{"01", "leader in an AVX loop", "no register changes", mustShow("spin futex")},
	{"02", "live red zone", "its words are kept", state{
		args: "-o spin spin spin", short: 10, long: 100, check: stopped("spin"),
	}.run},
	{"03a", "AVX-512 live", "registers and masks are kept", avx512},
	{"03b", "AMX live", "tiles are kept", amx},
	{"04", "leader in malloc", "success", mustShow("malloc futex")},
	{"05", "all threads in malloc", "success", mustShow("-o spin malloc malloc malloc")},
	{"06", "a constructor holds the loader's lock", "waits, then a clear time-out; success once it is free", loaderLocked},
	{"07a", "only epoll_wait, timed", "no EINTR", state{args: "-o epoll epoll1 epoll1 epoll1", short: 10, long: 100}.run},
	{"07b", "only epoll_wait without time-out", "no EINTR", state{args: "-o epoll epoll epoll", short: 10, long: 100}.run},
	{"08", "sigtimedwait, SO_RCVTIMEO", "no EINTR", state{args: "-o epoll sigtimedwait recv recv", short: 10, long: 100}.run},
	{"09", "nanosleep and poll time-outs", "total time unchanged", timeouts},
	{"10", "inside restart_syscall", "total time unchanged", restarted},
	{"11", "sigsuspend, ppoll", "mask kept", state{args: "-o poll sigsuspend ppoll", short: 10, long: 100}.run},
	{"12", "handler on an alternate stack", "kept, never borrowed", state{
		args: "-o poll altstack", short: 10, long: 100, check: neverBorrowed("altstack"),
	}.run},
	{"13", "inside the vDSO", "clock and registers are sound", vdso},
	{"14", "rseq critical section", "retried, never resumed in it", rseq},
	{"15a", "coroutine, tiny stack", "another thread is taken", state{
		args: "-o read coroutine tiny coroutine", short: 10, long: 100, check: onlyOwnStacks,
	}.run},
	{"15b", "nothing but coroutines", "refused, untouched", onlyCoroutines},
}

// mustShow are the states that get 200 injections and 200 attaches with the tool.
func mustShow(args string) func(*testing.T) string {
	return state{args: args, short: 10, long: 200, whole: 200}.run
}

func avx512(t *testing.T) string {
	if !cpuHas("avx512bw") {
		cannot(t, "this CPU has no AVX-512")
	}
	return state{args: "-o spin spin spin spin", short: 10, long: 100, check: stopped("spin")}.run(t)
}

func amx(t *testing.T) string {
	if !cpuHas("amx_tile") {
		cannot(t, "this CPU has no AMX")
	}
	return state{args: "-o spin amx amx", short: 10, long: 100}.run(t)
}

func cpuHas(flag string) bool {
	b, _ := os.ReadFile("/proc/cpuinfo")
	return strings.Contains(string(b), " "+flag+" ")
}

// loaderLocked: 6. The constructor ends when the file is removed.
func loaderLocked(t *testing.T) string {
	held := filepath.Join(t.TempDir(), "held")
	if err := os.WriteFile(held, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(victim.Path(t, "plain"))
	cmd.Env = []string{"RTL_SLOW=" + victim.Path(t, "slow.so"), "RTL_HOLD=" + held}
	v := gpuRun(t, cmd, gpuEnv(t, cmd))
	v.Ask(t, "d")
	refused := record(t, v.PID)
	if said := refused.Stderr.String(); refused.Code != 6 || !strings.Contains(said, `"load the payload" took longer than 10 s`) {
		t.Errorf("exit code %d, want 6 and the time-out\n%s", refused.Code, said)
	}
	v.works(t)
	waits := recording(t, "rtl-attach", v.PID, "-d", "5s") // a starved victim launches something in that
	if err := os.Remove(held); err != nil {
		t.Fatal(err)
	}
	waits.Exit(t)
	timed := waits.ok(t)
	v.works(t)
	v.Ask(t, "?")
	v.before.threads-- // the loading thread was counted, and has ended
	return fmt.Sprintf("time-out named, exit code %d; once free: %d dispatches timed", refused.Code, timed)
}

// timeouts: 9. Only timed waits, so that the injector must hold a thread.
func timeouts(t *testing.T) string {
	s := state{args: "-o poll sleep3 poll3 sleep poll select timedfutex", short: 10, long: 100}
	untouched := untouchedSleepers(t)
	s.check = func(t *testing.T, r *stateReport) { onTime(t, r, untouched, 0) }
	return s.run(t)
}

// lateness returns the longest delay of the end of a sleep, for threads of that kind.
func lateness(h victim.Health, kind string) (worst time.Duration) {
	for _, th := range h.Threads {
		if th.Kind == kind {
			worst = max(worst, time.Duration(th.LateNS))
		}
	}
	return worst
}

// untouchedSleepers measure how late a sleep ends on each processor.
func untouchedSleepers(t *testing.T) (all []*victim.Victim) {
	t.Helper()
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; len(all) < may.Count(); cpu++ {
		if may.IsSet(cpu) {
			all = append(all, victim.Run(t, exec.Command("taskset", "-c", strconv.Itoa(cpu), victim.Path(t, "busy"), "sleep")))
		}
	}
	return all
}

// onTime checks that each long wait ends neither early nor late. It allows for the machine's
// load, by short sleeps of untouched victims, and for times in which the whole machine was
// stopped.
func onTime(t *testing.T, r *stateReport, untouched []*victim.Victim, stopped time.Duration) {
	t.Helper()
	last := r.v.Health(t).Threads
	if !hang.Eventually(func() bool {
		for i, th := range r.v.Health(t).Threads {
			if slices.Contains(longWaits, th.Kind) && th.Beats == last[i].Beats {
				return false
			}
		}
		return true
	}) {
		t.Error("a wait of 3 s does not end")
	}
	r.health = r.v.Unharmed(t)
	share := time.Second + stopped
	for _, v := range untouched {
		share = max(share, time.Second+stopped+lateness(v.Health(t), "sleep"))
	}
	for _, kind := range longWaits {
		if late := lateness(r.health, kind); late > share {
			t.Errorf("%s: a wait of 3 s ended %v late, the machine's share being %v", kind, late, share)
		}
	}
}

// longWaits are busy's kinds that wait for 3 s.
var longWaits = []string{"sleep3", "poll3"}

// restarted: 10. After a job-control stop the sleeps continue in restart_syscall.
func restarted(t *testing.T) string {
	s := state{args: "-o poll sleep3 sleep3 sleep3", rung: "held"}
	v := victim.Start(t, "busy", strings.Fields(s.args)...)
	untouched := untouchedSleepers(t)
	r := &stateReport{v: v}
	inside, stopped := 0, time.Duration(0)
	for range repeat(3, 30) {
		stopped += stopAndGo(t, v.PID)
		sleepers := sleepOn(t, v)
		rep, err := injected(t, v, inject.Request{Library: library(t, "payload.so"), Entry: "rtl_mask"})
		if err != nil || rep.Rung != s.rung {
			t.Fatalf("inject: %v\n%+v", err, rep)
		}
		if sleepers[rep.TID] {
			inside++
		}
		r.reports = append(r.reports, rep)
	}
	if inside == 0 {
		t.Error("no thread was borrowed inside restart_syscall")
	}
	r.health = v.Unharmed(t)
	onTime(t, r, untouched, stopped)
	return fmt.Sprintf("%s; %d borrowed inside restart_syscall", r, inside)
}

// stopAndGo stops a process by job control and continues it. It returns how long that took.
func stopAndGo(t *testing.T, pid int) time.Duration {
	t.Helper()
	began := time.Now()
	_ = unix.Kill(pid, unix.SIGSTOP)
	if !hang.Eventually(func() bool { return stateOf(pid) == "T" }) {
		t.Error("the victim does not stop")
	}
	_ = unix.Kill(pid, unix.SIGCONT)
	if !hang.Eventually(func() bool { return stateOf(pid) != "T" }) {
		t.Error("the victim does not go on")
	}
	return time.Since(began)
}

// stateOf returns the letter of the state of a process's leader.
func stateOf(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(b), "State:\t")
	return rest[:min(1, len(rest))]
}

// sleepOn waits until all of the victim's threads have got the CPU that they need to sleep
// on, and lists those that are in restart_syscall.
func sleepOn(t *testing.T, v *victim.Victim) (inside map[int]bool) {
	t.Helper()
	if !hang.Eventually(func() bool {
		inside = inRestart(t, v)
		return len(inside) > 0 && states(v.PID)["S"] == len(threadsOf(v.PID))
	}) {
		t.Error("no thread sleeps on in restart_syscall")
	}
	return inside
}

// inRestart lists the victim's threads that are in restart_syscall.
func inRestart(t *testing.T, v *victim.Victim) map[int]bool {
	t.Helper()
	inside := map[int]bool{}
	for _, tid := range tids(v.Health(t), "sleep3") {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", v.PID, tid))
		if strings.HasPrefix(string(b), fmt.Sprintf("%d ", unix.SYS_RESTART_SYSCALL)) {
			inside[tid] = true
		}
	}
	return inside
}

// vdso: 13. It counts the stops in the vDSO.
func vdso(t *testing.T) string {
	s := state{args: "-o spin vdso vdso vdso", short: 20, long: 100}
	inside := 0
	at := func() []uint64 {
		v := victim.Start(t, "busy", strings.Fields(s.args)...)
		low, high := vdsoOf(t, v.PID)
		list := stoppedAt(t, v.PID, func() {
			for range repeat(s.short, s.long) {
				if _, err := injected(t, v, inject.Request{Library: library(t, "payload.so"), Entry: "rtl_mask"}); err != nil {
					t.Error(err)
				}
			}
		})
		for _, rip := range list {
			if low <= rip && rip < high {
				inside++
			}
		}
		v.Unharmed(t)
		return list
	}
	stops := len(at())
	if inside == 0 {
		t.Errorf("none of %d stops was inside the vDSO", stops)
	}
	text := s.run(t)
	return fmt.Sprintf("%d of %d stops inside the vDSO; %s", inside, stops, text)
}

func vdsoOf(t *testing.T, pid int) (low, high uint64) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			_, _ = fmt.Sscanf(line, "%x-%x", &low, &high)
		}
	}
	return low, high
}

// rseq: 14. An interrupted sequence that still runs to its end is harm.
func rseq(t *testing.T) string {
	s := state{args: "-o spin rseq rseq rseq", short: 20, long: 200}
	refused := 0
	s.check = func(_ *testing.T, r *stateReport) {
		for _, rep := range r.reports {
			for _, p := range rep.Pauses {
				if p.Why != nil && strings.Contains(p.Why.Error(), "rseq critical section") {
					refused++
				}
			}
		}
	}
	text := s.run(t)
	if refused == 0 {
		t.Error("no thread was ever stopped inside its sequence")
	}
	return fmt.Sprintf("%d stops fell into a sequence and were given up; %s", refused, text)
}

// onlyOwnStacks: the injector never borrows threads on foreign or tiny stacks.
func onlyOwnStacks(t *testing.T, r *stateReport) {
	neverBorrowed("coroutine")(t, r)
	neverBorrowed("tiny")(t, r)
}

func onlyCoroutines(t *testing.T) string {
	v := victim.Start(t, "busy", "-o", "coroutine", "coroutine", "coroutine")
	before := v.Inventory(t)
	tg, err := target.Open(v.PID)
	if err != nil {
		t.Fatal(err)
	}
	defer tg.Close()
	tr := ptrace.NewTracer()
	defer tr.Close()
	_, err = inject.Inject(context.Background(), tg, tr, inject.Request{Library: library(t, "payload.so"), Entry: "rtl_mask"})
	if !errors.Is(err, inject.ErrNoThread) {
		t.Errorf("error %v, want %v", err, inject.ErrNoThread)
	}
	v.Unharmed(t)
	v.AsBefore(t, before)
	return fmt.Sprint(err)
}
