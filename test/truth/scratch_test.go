package truth

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// scratchOfNewer is exported by runtimes that are certain to have the events.
const scratchOfNewer = "hsa_amd_agent_set_async_scratch_limit"

// Every request for scratch memory is recorded, in the first session and in those of later attaches;
// the program goes on between them, with our functions in the runtime's table. Of an older runtime the
// report says that it has no events.
func TestScratch(t *testing.T) {
	t.Parallel()
	p := harness.StartCold(t, harness.ScratchRequester())
	p.Ready(t)
	harness.Until(t, "the runtime answers requests", p.Dispatches(t, 10))
	_, isNewer := p.Slots(t)[scratchOfNewer]
	var runs []harness.Run
	silent := false
	for range 3 {
		run := recordScratch(t, p)
		silent = isSilent(t, run)
		runs = append(runs, run)
		harness.Until(t, "the program goes on after the detach", p.Dispatches(t, 100))
	}
	p.Quit(t)
	if silent && !isNewer {
		testenv.Skip(t, "this runtime has no events of scratch memory, and the report says so (RTL_RUNTIME=experimental has)")
	}
	requests := p.ScratchRequests(t)
	for _, run := range runs {
		compareScratch(t, run, requests)
	}
}

// recordScratch records some requests.
func recordScratch(t *testing.T, p *harness.Process) harness.Run {
	t.Helper()
	r := p.Begin(t, "--scratch-memory-trace", "--buffer-policy", "lossless")
	p.Active(t)
	harness.Until(t, "requests while attached", p.Dispatches(t, 100))
	r.Interrupt(t)
	run := r.Wait(t)
	if run.Code != failure.NothingSeen {
		run.MustBe(t, failure.OK)
	}
	if err := run.Decode(); err != nil {
		t.Fatal(err)
	}
	return run
}

// isSilent reports whether the summary says that the runtime has no events.
func isSilent(t *testing.T, run harness.Run) bool {
	t.Helper()
	s := harness.SaysOfScratch(t, run.Summary)
	if s == nil {
		t.Fatalf("the summary says nothing of scratch memory: %+v", run.Summary.Kinds)
	}
	if s.Silent > 0 && (s.Begun > 0 || s.Timed > 0 || len(s.Operations) > 0) {
		t.Errorf("a runtime without events has some: %+v", s)
	}
	if s.Unexplained != 0 || s.Surplus != 0 || s.Buried != 0 {
		t.Errorf("%+v", s)
	}
	return s.Silent > 0
}

// compareScratch compares what a session recorded with the requests.
func compareScratch(t *testing.T, run harness.Run, requests []harness.ScratchRequest) {
	t.Helper()
	found, armedNS, detachedNS := harness.ReadScratch(t, run.Trace)
	harness.CompareScratch(t, found, armedNS, detachedNS, requests)
}
