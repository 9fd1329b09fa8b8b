package truth

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

var (
	hipCalls = []string{"--hip-trace"}
	hsaCalls = []string{"--hsa-trace"}
	signals  = []string{"--hsa-trace", "--hsa-signal-trace"}
	allCalls = slices.Concat(hipCalls, signals, []string{"--buffer-policy", "lossless"})
)

// needCalls skips a test if the tool cannot record calls.
func needCalls(t *testing.T) {
	t.Helper()
	if help := harness.Tool(t, "record", "--help"); !strings.Contains(help.Stdout+help.Stderr, "--hip-trace") {
		testenv.Skip(t, "the tool has no --hip-trace")
	}
}

// Every call that the program made while it was recorded is recorded once, with its thread,
// result, arguments and times, or counted as lost.
func TestCalls(t *testing.T) {
	t.Parallel()
	needCalls(t)
	p := harness.Start(t, harness.HIPCalls("--churn", "1"))
	got, library := p.HIPByGOT(t), p.Library(t, "libamdhip64.so")
	run := p.RecordLast(t, 800*time.Millisecond, 20000, allCalls...)
	check(t, p, nil, run).MustHaveRecorded(100)
	c := harness.CompareAPICalls(t, p, got, run)
	c.MustHaveRecorded(50, "hipMalloc", "hipFree", "hipMemcpyAsync", "hipMemsetAsync", "hipModuleLaunchKernel", "hipGetDevice", "hipEventRecord",
		"hipStreamSynchronize", "hipSetDevice", "hsa_agent_get_info", "hsa_signal_wait_scacquire", "hsa_signal_load_relaxed", "hsa_signal_store_relaxed",
		"hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_free")
	c.MustHaveRecorded(5, "hipModuleGetFunction", "hipStreamCreateWithFlags", "hipStreamDestroy", "hipEventCreate", "hipEventDestroy")
	if !got {
		c.MustHaveRecorded(50, "hipGetDeviceCount") // by dlsym's pointer only
	}
	mustIntercept(t, library, run)
}

// leastIntercepted are how many functions of HIP's APIs are intercepted at least by the tables of a version: less of
// them means that a form of the library's code is not understood any more.
var leastIntercepted = map[string]int{"6.4.": 471, "7.2.": 504}

func mustIntercept(t *testing.T, library string, run harness.Run) {
	t.Helper()
	var all intercepted
	for _, api := range []string{"hip-runtime-api", "hip-compiler-api"} {
		c := coverageIn(t, run.Trace, api)
		all.functions, all.hooked, all.unknown = all.functions+c.functions, all.hooked+c.hooked, all.unknown+c.unknown
	}
	_, version, _ := strings.Cut(library, ".so.")
	t.Logf("HIP %s: %d of %d functions are intercepted, %d are not known", version, all.hooked, all.functions, all.unknown)
	for of, least := range leastIntercepted {
		if strings.HasPrefix(version, of) && all.hooked < least {
			t.Errorf("HIP %s: %d functions are intercepted, %d at least were", version, all.hooked, least)
		}
	}
}

// Sessions with other kinds of record each: none has what it was not asked for, and each call is
// in at most one.
func TestCallsReattach(t *testing.T) {
	t.Parallel()
	needCalls(t)
	p := harness.Start(t, harness.HIPCalls())
	got, slots := p.HIPByGOT(t), p.Slots(t)
	sets := [][]string{hipCalls, hsaCalls, slices.Concat(hipCalls, hsaCalls), nil, signals}
	cycles := 2 * len(sets)
	if testenv.Long() {
		cycles = 200
	}
	var runs []harness.Run
	for i := range cycles {
		asked := sets[i%len(sets)]
		run := p.RecordShortly(t, time.Duration(60+i%3*20)*time.Millisecond, append([]string{"--buffer-policy", "lossless"}, asked...)...)
		runs = append(runs, run)
		tr := harness.ReadAPICalls(t, run.Trace)
		for kind := range tr.Accounts {
			if flag := "--" + kind[:3] + "-trace"; !slices.Contains(asked, flag) {
				t.Errorf("session %d, %v: it has %s", i, asked, kind)
			}
		}
		if tr.Signals && !slices.Contains(asked, "--hsa-signal-trace") {
			t.Errorf("session %d, %v: it has the frequent functions", i, asked)
		}
		if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
			t.Errorf("session %d, %v: slots changed: %v", i, asked, changed)
		}
	}
	runs = append(runs, p.RecordLast(t, 300*time.Millisecond, 10000, allCalls...))
	check(t, p, p.TIDs(), runs...)
	harness.CompareAPICalls(t, p, got, runs...).MustHaveRecorded(100, "hipModuleLaunchKernel", "hsa_agent_get_info")
}

// A server's dispatches are as ever, and each is inside a call of HIP by its thread.
func TestCallsWithServe(t *testing.T) {
	t.Parallel()
	needCalls(t)
	p := harness.Start(t, harness.Workload{Program: "serve", Args: []string{"--threads", "4", "--streams", "6"}})
	before, slots := p.Snapshot(t), p.Slots(t)
	run := p.RecordUntil(t, time.Second, 4000, slices.Concat(hipCalls, hsaCalls, []string{"--buffer-policy", "lossless"})...)
	if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
		t.Errorf("slots changed: %v", changed)
	}
	p.NothingLeft(t, before)
	check(t, p, p.TIDs(), run).MustHaveRecorded(1000)
	tr := harness.ReadAPICalls(t, run.Trace)
	for kind, a := range tr.Accounts {
		if a.Begun == 0 && kind != "hip-compiler-api" || a.Begun != a.Timed+a.Unexplained {
			t.Errorf("%s: %+v", kind, a)
		}
	}
	insideCalls(t, harness.ReadTrace(t, run.Trace), tr)
}

// insideCalls checks that the submit of each dispatch is inside a recorded call of HIP; the first
// and the last call of a thread may be cut.
func insideCalls(t *testing.T, tr *harness.Trace, calls *harness.APITrace) {
	t.Helper()
	if lost := calls.Accounts["hip-runtime-api"].Unexplained; lost > 0 {
		t.Logf("%d calls of HIP are lost, and so their dispatches are in none", lost)
		return
	}
	byThread := map[int64][]harness.APIRecord{}
	for _, c := range calls.Calls {
		if strings.HasPrefix(c.Kind, "hip") {
			byThread[c.TID] = append(byThread[c.TID], c)
		}
	}
	inside, outside, cut := 0, 0, 0
	for _, d := range tr.Dispatches {
		submit, of := d.StartNS-d.QueuedNS, byThread[d.TID]
		switch {
		case !d.SubmitKnown:
		case len(of) == 0 || submit < of[0].StartNS || submit > of[len(of)-1].EndNS:
			cut++
		case slices.ContainsFunc(of, func(c harness.APIRecord) bool { return submit >= c.StartNS && submit <= c.EndNS }):
			inside++
		default:
			if outside++; outside <= 3 {
				t.Errorf("thread %d submitted at %d outside of every call", d.TID, submit)
			}
		}
	}
	if inside < 1000 || outside > 0 || cut > inside/10 {
		t.Errorf("%d dispatches are inside of calls, %d outside, %d before the thread's first or after its last call", inside, outside, cut)
	}
	t.Logf("%d dispatches inside of calls, %d cut", inside, cut)
}

// What is dangerous for a tool between caller and library: signal handlers that call, calls that
// are left by an exception, by longjmp or by the thread's end, children of fork, threads that come
// and go, and calls that last longer than the session. The target is unharmed, and what was
// replaced is as before.
func TestCallsDangers(t *testing.T) {
	t.Parallel()
	needCalls(t)
	p := harness.Start(t, harness.HIPCalls("--signals", "2", "--forks", "1", "--leavers", "1", "--waiters", "2", "--longs", "1", "--churn", "1"))
	got, slots := p.HIPByGOT(t), p.Slots(t)
	p.RecordShortly(t, 50*time.Millisecond, allCalls...) // the payload stays, and HIP has made its tables
	dormant := p.Data(t)

	r := p.Begin(t, allCalls...)
	r.Says(t, "✓ attached")
	taken := p.Data(t).Places()
	release(t, p) // the threads are now in calls that began in the session
	harness.Until(t, "it calls while it is recorded", p.Dispatches(t, 40000))
	r.Interrupt(t)
	runs := []harness.Run{r.MustRecord(t)}

	asBefore := func() {
		t.Helper()
		now := p.Data(t)
		if places := now.Places(); !maps.Equal(places, dormant.Places()) {
			t.Errorf("%d places point to the payload, before the session %d did; status %+v", len(places), len(dormant.Places()), p.Status(t))
		}
		now.MustBeAsIn(t, dormant, taken)
		if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
			t.Errorf("slots changed: %v", changed)
		}
	}
	if n := len(taken) - len(dormant.Places()); n < 30 {
		t.Errorf("only %d places pointed to the payload", n)
	}
	asBefore()

	r = p.Begin(t, allCalls...)
	r.Says(t, "✓ attached")
	release(t, p) // calls that began in the first session return in the second
	harness.Until(t, "it calls while it is recorded again", p.Dispatches(t, 40000))
	r.Interrupt(t)
	runs = append(runs, r.MustRecord(t))
	asBefore()
	release(t, p)
	harness.Until(t, "it goes on", p.Dispatches(t, 2000))
	p.StillAlive(t)
	check(t, p, nil, runs...)
	harness.CompareAPICalls(t, p, got, runs...).MustHaveRecorded(20, "hipGetDevice", "hipGetErrorString", "hsa_iterate_agents", "hipStreamSynchronize", "hipFree")
}

func release(t *testing.T, p *harness.Process) {
	t.Helper()
	if _, err := p.Get("/release"); err != nil {
		t.Fatal(err)
	}
}

// The application ends during the recording: what it called before is in the trace, or counted.
func TestCallsCutShort(t *testing.T) {
	t.Parallel()
	needCalls(t)
	p := harness.Start(t, harness.HIPCalls())
	got := p.HIPByGOT(t)
	r := p.Begin(t, allCalls...)
	r.Says(t, "✓ attached")
	harness.Until(t, "it calls while it is recorded", p.Dispatches(t, 10000))
	p.Quit(t)
	run := r.Wait(t)
	run.MustBe(t, failure.TargetExited)
	if c := harness.CompareAPICalls(t, p, got, run); c.Calls["hipModuleLaunchKernel"] == 0 || c.Calls["hsa_agent_get_info"] == 0 {
		t.Errorf("%v", c.Calls)
	}
}

// callDamage is a change to a correct trace; the comparison must report its kind.
type callDamage struct {
	what, kind string // kind "": none, it must be let through
	do         func(tr *harness.APITrace, victim int)
}

// changeCall changes only the victim: a hipMalloc that has succeeded.
func changeCall(how func(*harness.APIRecord)) func(*harness.APITrace, int) {
	return func(tr *harness.APITrace, victim int) { how(&tr.Calls[victim]) }
}

// removeCalls removes calls, and counts them out.
func removeCalls(of func(c, victim *harness.APIRecord, n int) bool) func(*harness.APITrace, int) {
	return func(tr *harness.APITrace, victim int) {
		v, n := tr.Calls[victim], 0
		tr.Calls = slices.DeleteFunc(tr.Calls, func(c harness.APIRecord) bool {
			if c.TID == v.TID {
				n++
			}
			return of(&c, &v, n)
		})
		tr.Settle()
	}
}

// changeAccount changes the account of HIP's calls.
func changeAccount(how func(*harness.KindAccount)) func(*harness.APITrace, int) {
	return func(tr *harness.APITrace, _ int) {
		a := tr.Accounts["hip-runtime-api"]
		how(&a)
		tr.Accounts["hip-runtime-api"] = a
	}
}

func isVictim(c, v *harness.APIRecord, _ int) bool { return c.TID == v.TID && c.StartNS == v.StartNS }

var callDamages = []callDamage{
	{"nothing", "", changeCall(func(*harness.APIRecord) {})},
	{"bits of the result that are none", "", changeCall(func(c *harness.APIRecord) { c.Result |= 1 << 40 })},
	{"another result", "result", changeCall(func(c *harness.APIRecord) { c.Result = 2 })},
	{"another size", "arguments", changeCall(func(c *harness.APIRecord) { c.Words[1]++ })},
	{"another pointer", "arguments", changeCall(func(c *harness.APIRecord) { c.Words[0] += 8 })},
	{"an argument is missing", "arguments", changeCall(func(c *harness.APIRecord) { c.Words = c.Words[:1] })},
	{"the address of the pointer", "out", changeCall(func(c *harness.APIRecord) { c.Flags = 0 })},
	{"another function", "unknown", changeCall(func(c *harness.APIRecord) { c.Function = "hipFree" })},
	{"another kind", "thread", changeCall(func(c *harness.APIRecord) { c.Kind = "hip-compiler-api" })},
	{"of no thread", "thread", changeCall(func(c *harness.APIRecord) { c.TID = 1 })},
	{"begins too early", "unknown", changeCall(func(c *harness.APIRecord) { c.StartNS -= 5000 })},
	{"ends too late", "unknown", changeCall(func(c *harness.APIRecord) { c.EndNS += 5000 })},
	{"is there twice", "unknown", func(tr *harness.APITrace, victim int) {
		tr.Calls = append(tr.Calls, tr.Calls[victim])
		tr.Settle()
	}},
	{"is missing", "missing", removeCalls(isVictim)},
	{"is missing, and lost", "", func(tr *harness.APITrace, victim int) {
		changeAccount(func(a *harness.KindAccount) { a.Unexplained = 1 })(tr, victim)
		removeCalls(isVictim)(tr, victim)
	}},
	{"some are missing, and one is lost", "missing", func(tr *harness.APITrace, victim int) {
		changeAccount(func(a *harness.KindAccount) { a.Unexplained = 1 })(tr, victim)
		left := 3
		removeCalls(func(c, v *harness.APIRecord, _ int) bool {
			if c.TID != v.TID || c.Kind != v.Kind || c.StartNS < v.StartNS || left == 0 {
				return false
			}
			left--
			return true
		})(tr, victim)
	}},
	{"its thread's first are missing", "missing", removeCalls(func(c, v *harness.APIRecord, n int) bool { return c.TID == v.TID && n <= 20 })},
	{"its thread's last are missing", "missing", removeCalls(func(c, v *harness.APIRecord, _ int) bool {
		return c.TID == v.TID && c.StartNS > v.StartNS
	})},
	{"all of its thread are missing", "missing", removeCalls(func(c, v *harness.APIRecord, _ int) bool { return c.TID == v.TID })},
	{"all of its kind are missing", "missing", removeCalls(func(c, v *harness.APIRecord, _ int) bool { return c.Kind == v.Kind })},
	{"all of a function are missing", "missing", removeCalls(func(c, v *harness.APIRecord, _ int) bool { return c.Function == v.Function })},
	{"HSA's are missing", "missing", removeCalls(func(c, _ *harness.APIRecord, _ int) bool { return c.Kind == "hsa-core-api" })},
	{"signal handlers' are missing", "missing", removeCalls(func(c, v *harness.APIRecord, _ int) bool { return c.Function == "hipGetErrorString" })},
	{"many are lost, and none is missing", "lost", changeAccount(func(a *harness.KindAccount) { a.Unexplained, a.Begun = 1e6, a.Begun+1e6 })},
	{"one more is counted", "account", changeAccount(func(a *harness.KindAccount) { a.Timed++ })},
	{"one more has begun", "account", changeAccount(func(a *harness.KindAccount) { a.Begun++ })},
	{"no account", "account", func(tr *harness.APITrace, _ int) { delete(tr.Accounts, "hsa-core-api") }},
	{"before the session", "session", func(tr *harness.APITrace, victim int) { tr.Session.ArmedNS = tr.Calls[victim].StartNS + 5000 }},
}

// A comparison that cannot fail proves nothing: the comparison accepts what a session without a
// fault would record, and reports every damage to it.
func TestCallComparison(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.HIPCalls("--signals", "1", "--churn", "1", "--pace", "1000"))
	harness.Until(t, "its threads have called", p.Dispatches(t, 30000))
	p.Quit(t)
	log := p.APICalls(t)
	var begun []int64
	for _, calls := range log {
		for _, call := range calls {
			begun = append(begun, call.BeforeNS)
		}
	}
	slices.Sort(begun)
	perfect := func(got bool) *harness.APITrace { // of all but the first and the last fifth of the calls
		return harness.NewCallComparison(t, log, got).Perfect(begun[len(begun)/5], begun[len(begun)*4/5])
	}
	faults := func(got bool, sessions ...*harness.APITrace) map[string]int {
		var found findings
		c := harness.NewCallComparison(&found, log, got)
		for _, tr := range sessions {
			c.Add(tr)
		}
		c.Finish()
		return c.Faults()
	}
	for _, d := range callDamages {
		t.Run(d.what, func(t *testing.T) {
			tr := perfect(false)
			d.do(tr, callVictim(t, tr))
			if found := faults(false, tr); d.kind == "" && len(found) > 0 || d.kind != "" && found[d.kind] == 0 {
				t.Errorf("expected %q, found %v", d.kind, found)
			}
		})
	}
	t.Run("two sessions have the same calls", func(t *testing.T) {
		if found := faults(false, perfect(false), perfect(false)); found["duplicate"] == 0 {
			t.Errorf("found %v", found)
		}
	})
	t.Run("at the callers, without pointers", func(t *testing.T) {
		if found := faults(true, perfect(true)); len(found) > 0 {
			t.Errorf("found %v", found)
		}
	})
	t.Run("at the callers, with pointers", func(t *testing.T) {
		if found := faults(true, perfect(false)); found["unknown"] == 0 {
			t.Errorf("found %v", found)
		}
	})
}

// callVictim returns the index of a hipMalloc that has succeeded: the middle one of the thread that has most of them.
func callVictim(t *testing.T, tr *harness.APITrace) int {
	t.Helper()
	ofThread := map[int64][]int{}
	var most []int
	for i, c := range tr.Calls {
		if c.Function == "hipMalloc" && c.Flags == 1 {
			of := append(ofThread[c.TID], i)
			ofThread[c.TID] = of
			if len(of) > len(most) {
				most = of
			}
		}
	}
	if len(most) < 20 {
		t.Fatalf("no thread has 20 such calls, only %d", len(most))
	}
	return most[len(most)/2]
}

// afterSome is a condition for harness.Until that comes about after a time.
func afterSome(d time.Duration) func() bool {
	over := time.Now().Add(d)
	return func() bool { return time.Now().After(over) }
}
