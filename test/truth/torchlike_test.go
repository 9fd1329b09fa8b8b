package truth

import (
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

// A training loop in Python: every range and mark is recorded with its nesting, every kernel lies in the
// ranges in which its thread launched it, and threads have their names.
func TestTorchLike(t *testing.T) {
	t.Parallel()
	t.Run("libroctx64", func(t *testing.T) { torchLike(t, harness.Roctx64(t)) })
	t.Run("sdk", func(t *testing.T) {
		torchLike(t, harness.BuiltFile(t, filepath.Join("victims", "librocprofiler-sdk-roctx.so")))
	})
}

func torchLike(t *testing.T, library string) {
	t.Helper()
	p := harness.Start(t, harness.TorchLike(t, library, "--pace", "2000"))
	run := p.RecordLast(t, 500*time.Millisecond, 3000, "--marker-trace", "--memory-copy-trace", "--hip-runtime-trace", "--buffer-policy", "lossless")
	check(t, p, nil, run).MustHaveRecorded(200)
	calls, _, _ := p.MarkerCalls(t)
	made, launches := harness.SplitLaunches(calls)
	recorded := harness.ReadMarkers(t, run.Trace)
	c := harness.NewMarkerComparison(t, made)
	c.Add(recorded)
	c.Finish()

	checkTorchCalls(t, run.Trace, launches)

	kernels := harness.ReadRangedKernels(t, run.Trace)
	from, until := wholeRanges(recorded)
	r := harness.NewRangeComparison(t, made, launches)
	r.Add(kernels, from, until)
	r.Finish()
	if c.Recorded < 500 || r.Kernels < 200 || r.Deepest != 3 {
		t.Errorf("too little was compared: %d calls, %d kernels, %d ranges deep", c.Recorded, r.Kernels, r.Deepest)
	}
	names := map[string]bool{}
	for _, k := range kernels {
		names[k.Thread] = true
	}
	if got, want := slices.Sorted(maps.Keys(names)), []string{"autograd", "data loader", "trainer"}; !slices.Equal(got, want) {
		t.Errorf("threads %q, want %q", got, want)
	}
}

// hipNames are the functions of HIP that the program's threads call in their loops.
var hipNames = map[string][]string{
	"autograd":    {"hipModuleLaunchKernel"},
	"data loader": {"hipMemcpyAsync", "hipModuleLaunchKernel", "hipStreamSynchronize"},
	"trainer":     {"hipEventCreateWithFlags", "hipEventDestroy", "hipEventRecord", "hipModuleLaunchKernel", "hipStreamSynchronize", "hipStreamWaitEvent"},
}

// checkTorchCalls checks each thread's calls of HIP: their functions, and that each launch in its log is one recorded call
// within the logged time, which has submitted that kernel.
func checkTorchCalls(t *testing.T, trace string, launches map[int64][]harness.MarkerCall) {
	t.Helper()
	recorded, names := harness.ReadLaunches(t, trace)
	if !maps.EqualFunc(names, hipNames, slices.Equal) {
		t.Errorf("functions %v, want %v", names, hipNames)
	}
	compared := 0
	for tid, calls := range recorded {
		from, until := calls[0].StartNS, calls[len(calls)-1].EndNS
		logged := slices.DeleteFunc(slices.Clone(launches[tid]), func(c harness.MarkerCall) bool { return c.AfterNS < from || c.BeforeNS > until })
		if len(logged) != len(calls) {
			t.Errorf("thread %d: %d launches recorded, %d made", tid, len(calls), len(logged))
			continue
		}
		for i, c := range calls {
			if l := logged[i]; c.StartNS < l.BeforeNS || c.EndNS > l.AfterNS || c.Kernel != "" && c.Kernel != l.Text {
				t.Errorf("thread %d: %+v, the program's log: %+v", tid, c, l)
			} else if c.Kernel != "" {
				compared++
			}
		}
	}
	if compared < 200 || len(recorded) != len(hipNames) {
		t.Errorf("%d launches with kernels compared, of %d threads", compared, len(recorded))
	}
}

// wholeRanges returns the time in which the markers of all threads were recorded.
func wholeRanges(recorded map[int64][]harness.MarkerCall) (fromNS, untilNS int64) {
	untilNS = math.MaxInt64
	for _, calls := range recorded {
		fromNS, untilNS = max(fromNS, calls[0].BeforeNS), min(untilNS, calls[len(calls)-1].AfterNS)
	}
	return fromNS, untilNS
}

// A comparison that cannot fail proves nothing: a kernel in another range, or in none, is reported.
func TestRangeComparison(t *testing.T) {
	t.Parallel()
	call := func(operation int, at int64, text string) harness.MarkerCall {
		return harness.MarkerCall{Operation: operation, BeforeNS: at, AfterNS: at + 100_000, Text: text}
	}
	made := map[int64][]harness.MarkerCall{7: {
		call(harness.MarkerPush, 1e6, "outer"), call(harness.MarkerPush, 2e6, "inner"), call(harness.MarkerPop, 5e6, ""), call(harness.MarkerPop, 6e6, ""),
	}}
	launches := map[int64][]harness.MarkerCall{7: {call(5, 3e6, "k")}}
	outer, inner := harness.RecordedRange{Name: "outer", StartNS: 1e6}, harness.RecordedRange{Name: "inner", StartNS: 2e6}
	for what, one := range map[string]struct {
		kernel harness.RangedKernel
		kind   string // "": none
	}{
		"right":           {harness.RangedKernel{SubmitNS: 3e6, Ranges: []harness.RecordedRange{outer, inner}}, ""},
		"one is missing":  {harness.RangedKernel{SubmitNS: 3e6, Ranges: []harness.RecordedRange{outer}}, "range"},
		"one too many":    {harness.RangedKernel{SubmitNS: 3e6, Ranges: []harness.RecordedRange{outer, inner, inner}}, "range"},
		"never launched":  {harness.RangedKernel{SubmitNS: 4e6}, "launch"},
		"in another time": {harness.RangedKernel{SubmitNS: 3e6, Ranges: []harness.RecordedRange{outer, {Name: "inner", StartNS: 9e6}}}, "range"},
	} {
		t.Run(what, func(t *testing.T) {
			one.kernel.TID, one.kernel.Symbol = 7, "k"
			var found findings
			c := harness.NewRangeComparison(&found, made, launches)
			c.Add([]*harness.RangedKernel{&one.kernel}, 0, 1e9)
			c.Finish()
			if n := len(c.Faults()); one.kind == "" && n > 0 || one.kind != "" && c.Faults()[one.kind] == 0 {
				t.Errorf("expected %q, found %v", one.kind, c.Faults())
			}
		})
	}
}
