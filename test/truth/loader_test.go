package truth

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

const window = 100 * time.Millisecond // of short sessions

// A called is a process whose calls are recorded, and what it had before a session.
type called struct {
	*harness.Process
	got     bool
	dormant harness.Data
}

// startCalled starts hipcalls and makes a first session of every kind, after which the payload stays, and what some kinds leave in the
// runtime: its functions for events of scratch memory.
func startCalled(t *testing.T, args ...string) *called {
	t.Helper()
	needCalls(t)
	p := start(t, args...)
	p.RecordShortly(t, window, slices.Concat(allCalls, []string{"--sys-trace"})...)
	p.dormant = p.Data(t)
	return p
}

func start(t *testing.T, args ...string) *called {
	t.Helper()
	p := harness.Start(t, harness.HIPCalls(args...))
	return &called{Process: p, got: p.HIPByGOT(t)}
}

// ask makes a request of the workload's server, and returns the answer.
func (p *called) ask(t *testing.T, request string) string {
	t.Helper()
	said, err := p.Get(request)
	if err != nil {
		t.Fatalf("%s: %v\n%s", request, err, p.Output())
	}
	return said
}

// begin starts a session, and returns the places that it has taken.
func (p *called) begin(t *testing.T, args ...string) (*harness.Command, harness.Places) {
	t.Helper()
	r := p.Begin(t, slices.Concat(allCalls, args)...)
	r.Says(t, "✓ attached")
	return r, p.Data(t).Places()
}

// end ends it, and checks that the places are as before.
func (p *called) end(t *testing.T, r *harness.Command, taken harness.Places) harness.Run {
	t.Helper()
	r.Interrupt(t)
	run := r.MustRecord(t)
	p.asBefore(t, taken)
	return run
}

func (p *called) asBefore(t *testing.T, taken harness.Places) {
	t.Helper()
	now := p.Data(t)
	if places := now.Places(); !maps.Equal(places, p.dormant.Places()) {
		t.Errorf("%d places point to the payload, before the session %d did", len(places), len(p.dormant.Places()))
	}
	now.MustBeAsIn(t, p.dormant, taken)
}

// compare ends the process, and compares all with its logs.
func (p *called) compare(t *testing.T, runs ...harness.Run) *harness.CallComparison {
	t.Helper()
	p.StillAlive(t)
	check(t, p.Process, nil, runs...)
	return harness.CompareAPICalls(t, p.Process, p.got, runs...)
}

// A library that calls HIP is loaded during a session, its calls are recorded, and it is unloaded with
// what the payload has replaced in it.
func TestCallsPluginUnloaded(t *testing.T) {
	t.Parallel()
	p := startCalled(t)
	r, taken := p.begin(t)
	for range 3 {
		before := len(p.Data(t).Places())
		p.ask(t, "/plugin/open")
		if p.got {
			harness.Until(t, "the library's entry is replaced", func() bool { return len(p.Data(t).Places()) > before })
		}
		harness.Until(t, "it calls", p.Dispatches(t, 1000))
		p.ask(t, "/plugin/close")
	}
	run := p.end(t, r, taken)
	p.compare(t, run).MustHaveRecorded(100, "hipGetDevice")
}

// Another tool puts its functions above ours during a session, in a table's slot and in an entry of the
// program's global offset table. They stay, and go on to work, and later sessions record below them.
func TestCallsOtherTool(t *testing.T) {
	t.Parallel()
	p := startCalled(t)
	changes, often := 0, testenv.Times(0, leastTransitions/4)
	works := func() {
		t.Helper()
		from := p.counts(t)
		harness.Until(t, "the other tool gets all calls", func() bool {
			now := p.counts(t)
			return now[0] > from[0]+50 && now[1] > from[1]+50
		})
	}
	enter := func() {
		t.Helper()
		p.ask(t, "/tool/enter")
		changes++
		works()
	}
	leave := func() { // what it has found is there again: ours
		t.Helper()
		p.ask(t, "/tool/leave")
		changes++
		harness.Until(t, "it calls", p.Dispatches(t, 4000))
	}
	r, taken := p.begin(t)
	for range often {
		enter()
		leave()
	}
	enter()
	r.Interrupt(t)
	runs := []harness.Run{r.MustRecord(t)}
	works()
	runs = append(runs, p.RecordUntil(t, window, 4000, allCalls...))
	works()
	r, _ = p.begin(t)
	works()
	for range often {
		leave()
		enter()
	}
	leave()
	r.Interrupt(t)
	runs = append(runs, r.MustRecord(t))
	runs = append(runs, p.RecordUntil(t, window, 4000, allCalls...))
	p.asBefore(t, taken)
	p.compare(t, runs...).MustHaveRecorded(100, "hipGetDevice", "hsa_agent_get_info")
	transitions(t, changes)
}

// TestCallsOtherToolBefore: the tool has its functions there before ours, and leaves and enters between sessions. An entry of
// a global offset table that leads to it is left alone: HIP without a dispatch table is not recorded here.
func TestCallsOtherToolBefore(t *testing.T) {
	t.Parallel()
	needCalls(t)
	p := start(t)
	kinds, functions := allCalls, []string{"hipGetDevice", "hsa_agent_get_info"}
	if p.got {
		kinds, functions = append(slices.Clone(signals), "--buffer-policy", "lossless"), functions[1:]
	}
	var runs []harness.Run
	changes := 0
	toggle := func(n int) {
		t.Helper()
		for range n {
			p.ask(t, []string{"/tool/enter", "/tool/leave"}[changes%2])
			changes++
			harness.Until(t, "it calls", p.Dispatches(t, 500))
		}
	}
	for range testenv.Times(2, leastTransitions/5) {
		toggle(5)
		runs = append(runs, p.RecordUntil(t, window, 2000, kinds...))
	}
	p.compare(t, runs...).MustHaveRecorded(100, functions...)
	transitions(t, changes)
}

// counts returns how many calls the other tool has got, in either place.
func (p *called) counts(t *testing.T) (n [2]int) {
	t.Helper()
	if _, err := fmt.Sscan(p.ask(t, "/tool/calls"), &n[0], &n[1]); err != nil {
		t.Fatal(err)
	}
	return n
}

// A thread always calls dladdr in a callback of dl_iterate_phdr, and so takes the dynamic linker's locks in the
// reverse order: sessions begin and end all the same.
func TestCallsLoaderLocks(t *testing.T) {
	t.Parallel()
	p := startCalled(t, "--pace", "2000") // on a busy machine a session waits for the locks for long
	p.ask(t, "/walk")
	var runs []harness.Run
	for range 4 {
		r, taken := p.begin(t, "--sys-trace")
		harness.Until(t, "it calls", p.Dispatches(t, 1000))
		runs = append(runs, p.end(t, r, taken))
	}
	p.ask(t, "/let-go")
	p.compare(t, runs...).MustHaveRecorded(100, "hipGetDevice", "hsa_agent_get_info")
}

// exit() while threads are in recorded calls, with a handler that calls HIP: the process ends as it
// does alone, and the trace has what was recorded. The same while a thread stays in a callback of
// dl_iterate_phdr, and so has a lock of the dynamic linker.
func TestCallsAtExit(t *testing.T) {
	t.Parallel()
	needCalls(t)
	for name, before := range map[string]string{"others call": "/health", "the linker's lock is held": "/hold"} {
		t.Run(name, func(t *testing.T) {
			exitCalled(t, start(t, "--waiters", "2"), before) // alone
			for range 2 {
				exitRecorded(t, before)
			}
		})
	}
}

func exitRecorded(t *testing.T, before string) {
	t.Helper()
	p := start(t, "--waiters", "2")
	r, _ := p.begin(t)
	release(t, p.Process) // the waiters are in calls that began in the session
	harness.Until(t, "it calls while it is recorded", p.Dispatches(t, 4000))
	exitCalled(t, p, before)
	run := r.Wait(t)
	run.MustBe(t, failure.TargetExited)
	c := harness.CompareAPICalls(t, p.Process, p.got, run)
	if c.Calls["hipModuleLaunchKernel"] == 0 || c.Calls["hsa_agent_get_info"] == 0 {
		t.Errorf("%v", c.Calls)
	}
}

func exitCalled(t *testing.T, p *called, before string) {
	t.Helper()
	p.ask(t, before)
	p.ask(t, "/exit")
	if code := p.Wait(t); code != 7 || !strings.Contains(p.Output(), "the exit handler has called HIP") {
		t.Errorf("it ended with %d\n%s", code, p.Output())
	}
}
