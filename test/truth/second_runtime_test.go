package truth

import (
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// secondRuntime has the workload load a second copy of the HSA runtime, and returns its path.
func secondRuntime(t *testing.T, p *harness.Process, how string) string {
	t.Helper()
	return p.MustGet(t, "/runtime/"+how)
}

// A second copy of the HSA runtime, as a file of its own, is loaded before the first session or between two. A
// program without HIP must name the one that it means; the others are as before.
func TestSecondRuntime(t *testing.T) {
	for _, first := range []string{"", "a session before"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			p := harness.Start(t, harness.Stress(3, 2, 64, "--pace", "100"))
			used := p.Library(t, "libhsa-runtime64")
			var runs []harness.Run
			if first != "" {
				runs = append(runs, p.RecordUntil(t, 50*time.Millisecond, 1000))
			}
			secondRuntime(t, p, "copy")
			before := p.Snapshot(t)
			refused := p.TryRecord(t, 50*time.Millisecond)
			if refused.Code != failure.Failed || !strings.Contains(refused.Stderr, "2 copies of libhsa-runtime64 are loaded: name one with RTL_HSA_LIBRARY") {
				t.Errorf("exit code %d\n%s", refused.Code, refused.Stderr)
			}
			p.NothingLeft(t, before)
			for range testenv.Times(3, leastTransitions/2) {
				runs = append(runs, p.RecordUntil(t, 50*time.Millisecond, 1000, "--set", "RTL_HSA_LIBRARY="+used))
			}
			p.NothingLeft(t, before)
			p.StillAlive(t)
			check(t, p, p.TIDs(), runs...).MustHaveRecorded(1000)
			transitions(t, 2*len(runs))
		})
	}
}

// With HIP, the copy that HIP uses is recorded, dispatches and calls.
func TestSecondRuntimeBesideHIP(t *testing.T) {
	t.Parallel()
	needCalls(t)
	p := start(t, "--pace", "300")
	secondRuntime(t, p.Process, "copy")
	p.RecordShortly(t, window, allCalls...)
	p.dormant = p.Data(t)
	r, taken := p.begin(t)
	harness.Until(t, "it calls", p.Dispatches(t, 4000))
	run := p.end(t, r, taken)
	p.compare(t, run).MustHaveRecorded(50, "hipModuleLaunchKernel", "hsa_agent_get_info")
}

// A copy in another namespace of the dynamic linker is no part of the program's own: the program's is recorded.
func TestSecondNamespace(t *testing.T) {
	for _, first := range []string{"", "a session before"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			p := harness.Start(t, harness.Stress(3, 2, 64, "--pace", "100"))
			var runs []harness.Run
			if first != "" {
				runs = append(runs, p.RecordUntil(t, 50*time.Millisecond, 1000))
			}
			secondRuntime(t, p, "namespace")
			runs = append(runs, p.RecordUntil(t, 50*time.Millisecond, 1000))
			before := p.Snapshot(t)
			for range testenv.Times(2, leastTransitions/2) {
				runs = append(runs, p.RecordUntil(t, 50*time.Millisecond, 1000))
			}
			p.NothingLeft(t, before)
			p.StillAlive(t)
			check(t, p, p.TIDs(), runs...).MustHaveRecorded(1000)
			transitions(t, 2*len(runs))
		})
	}
}
