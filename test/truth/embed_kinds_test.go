package truth

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// recordedByLibrary starts a workload that librtl records with all kinds, and makes sessions. Those that have lost something, on a
// machine that is too busy, are left out. least is how much the workload does in each. It returns these sessions of the
// ended workload; look is called before its end.
func recordedByLibrary(t *testing.T, w harness.Workload, least int, look ...func(*harness.Process)) (*harness.Process, []harness.EmbeddedSession) {
	t.Helper()
	p := harness.StartCold(t, harness.RecordedByLibrary(t, w))
	p.Ready(t)
	harness.Until(t, "it works", p.Dispatches(t, 10))
	for range testenv.Times(3, 40) {
		p.AskRecorder(t, "start")
		harness.Until(t, "it is recorded", p.Dispatches(t, least))
		p.AskRecorder(t, "stop")
		harness.Until(t, "it goes on", p.Dispatches(t, min(100, least)))
	}
	p.StillAlive(t)
	for _, f := range look {
		f(p)
	}
	if counts := p.Quit(t); len(counts) > 0 { // it dispatches
		p.Truth(t).MustHoldOnce(t, counts)
	}
	var whole []harness.EmbeddedSession
	lost := uint64(0)
	for _, s := range p.RecorderSessions(t) {
		if !s.Ended || s.Why != 1 { // RTL_ENDED_BY_STOP
			t.Errorf("a session ended by %d", s.Why)
		}
		if lost += s.Unread; s.Unread == 0 {
			whole = append(whole, s)
		}
	}
	if lost > 0 {
		t.Logf("%d sessions without losses; %d records were lost in the others", len(whole), lost)
	}
	return p, whole
}

// The callbacks of each kind get what the program itself has logged: each call, copy, allocation and marker of a session once, with
// its thread, values and times, and nothing else.
func TestEmbedKinds(t *testing.T) {
	t.Run("calls", func(t *testing.T) {
		t.Parallel()
		got := false
		p, sessions := recordedByLibrary(t, harness.HIPCalls("--churn", "1", "--pace", "1000"), 4000, func(p *harness.Process) { got = p.HIPByGOT(t) })
		c := harness.NewCallComparison(t, p.APICalls(t), got)
		for i := range sessions {
			c.Add(sessions[i].Kinds.APITrace())
		}
		c.Finish()
		if len(sessions) > 0 {
			c.MustHaveRecorded(10, "hipMalloc", "hipModuleLaunchKernel", "hipMemcpyAsync", "hipStreamSynchronize", "hsa_agent_get_info",
				"hsa_amd_memory_pool_allocate", "hsa_system_get_info")
		}
	})
	t.Run("copies", func(t *testing.T) {
		t.Parallel()
		p, sessions := recordedByLibrary(t, harness.Copier(), 2000)
		c := harness.NewCopyComparison(t, p.CopyTruth(t), p.CopyCalls(t))
		for _, s := range sessions {
			c.Add(s.Kinds.Copies, harness.CopyCoverage{}, s.Kinds.Session)
		}
		if len(sessions) > 0 {
			c.Finish()
			c.MustHaveRecorded(500)
		}
	})
	t.Run("allocations", func(t *testing.T) {
		t.Parallel()
		p, sessions := recordedByLibrary(t, harness.Allocator(), 2000)
		c := harness.NewAllocationComparison(t, p.AllocationCalls(t))
		for _, s := range sessions {
			c.Add(s.Kinds.Allocations, harness.CopyCoverage{})
		}
		for _, want := range []string{"pool allocate", "pool free", "region allocate", "region free"} {
			if len(sessions) > 0 && c.Direct[want] < 50 {
				t.Errorf("%s: %d compared", want, c.Direct[want])
			}
		}
		t.Logf("%v, %v, %d failed", c.Direct, c.ByHIP, c.Failed)
	})
	t.Run("markers", func(t *testing.T) {
		t.Parallel()
		p, sessions := recordedByLibrary(t, harness.Marking(harness.Roctx64(t)), 200)
		calls, _, _ := p.MarkerCalls(t)
		c := harness.NewMarkerComparison(t, calls)
		c.Plain = true
		for _, s := range sessions {
			c.Add(s.Kinds.Markers)
		}
		c.Finish()
		if len(sessions) > 0 && c.Recorded < 200 {
			t.Errorf("%d calls compared", c.Recorded)
		}
	})
	t.Run("scratch memory", func(t *testing.T) {
		t.Parallel()
		p, sessions := recordedByLibrary(t, harness.ScratchRequester(), 200)
		requests := p.ScratchRequests(t)
		for _, s := range sessions {
			if len(s.Kinds.Scratch) == 0 {
				testenv.Skip(t, "this runtime has no events of scratch memory (RTL_RUNTIME=experimental has)")
			}
			harness.CompareScratch(t, s.Kinds.Scratch, s.Kinds.Session.ArmedNS, s.Kinds.Session.DetachedNS, requests)
		}
	})
}
