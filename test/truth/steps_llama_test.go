package truth

import (
	"encoding/json"
	"math"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/steps"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/simlog"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// searchedKernels is about how many kernels of a thread the search for sequences looks at: a recording has them all.
const searchedKernels = 33_000

// The steps of a server like llama.cpp's are its tokens and the batches of its prompts, as its own log has them: also if its
// thread waits inside a step, for a processor or in the same places each time, and if it does not wait between steps.
func TestStepsLlama(t *testing.T) {
	for name, one := range map[string]struct {
		args []string
		long time.Duration
	}{
		"sampling":    {nil, 30 * time.Second},
		"no pauses":   {[]string{"--sample", "0"}, 10 * time.Second}, // some million kernels
		"interrupted": {[]string{"--interrupt", "100"}, 30 * time.Second},
		"splits":      {[]string{"--split", "7"}, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.Start(t, harness.LlamaLike(one.args...))
			d := 2500 * time.Millisecond
			if testenv.Long() {
				d = one.long
			}
			run := p.RecordLast(t, d, searchedKernels, "--buffer-policy", "lossless")
			check(t, p, nil, run).MustHaveRecorded(searchedKernels)
			want := stepsInside(t, p, run)
			compareStepsFound(t, run.Trace, want)
			compareStepsReport(t, run.Trace, want)
		})
	}
}

// stepInside is a step all of whose kernels are in a trace, with the simulator's times.
type stepInside struct {
	harness.LoggedStep
	startNS, endNS int64
}

// stepsInside returns the steps that are whole in a trace, by their log.
func stepsInside(t *testing.T, p *harness.Process, run harness.Run) (whole []stepInside) {
	t.Helper()
	all := p.StepsLog(t)
	inside, kernels := make([]stepInside, len(all)), make([]int64, len(all))
	eachKernel(t, p, run, func(_ *harness.Dispatch, number uint64, r *simlog.Record) {
		n := sort.Search(len(all), func(i int) bool { return all[i].First > int64(number) }) - 1
		if kernels[n]++; kernels[n] == 1 {
			inside[n] = stepInside{all[n], math.MaxInt64, 0}
		}
		inside[n].startNS, inside[n].endNS = min(inside[n].startNS, int64(r.StartNS)), max(inside[n].endNS, int64(r.EndNS))
	})
	for n, s := range inside {
		if kernels[n] == s.Kernels && s.Kernels > 0 {
			if s.startNS < s.BeginNS || s.endNS > s.EndNS {
				t.Errorf("%+v: the simulator ran it from %d to %d", s.LoggedStep, s.startNS, s.endNS)
			}
			whole = append(whole, s)
		}
	}
	return whole
}

// compareStepsFound compares each step that is found with the log. At the end of the recording there may be a part of one.
func compareStepsFound(t *testing.T, path string, want []stepInside) {
	t.Helper()
	tr, err := traceread.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var found []steps.Step
	_, err = steps.Find(t.Context(), tr, steps.Options{Window: traceread.Always, Begin: func() func(steps.Step) error {
		found = nil
		return func(s steps.Step) error {
			s.Kernels = slices.Clone(s.Kernels)
			found = append(found, s)
			return nil
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(found); n > 0 && found[n-1].Differs && found[n-1].StartNS > want[len(want)-1].endNS {
		found = found[:n-1]
	}
	if len(found) != len(want) {
		t.Errorf("%d steps found, %d logged", len(found), len(want))
	}
	for i := range min(len(found), len(want)) {
		s, w := &found[i], &want[i]
		if s.Differs || int64(len(s.Kernels)) != w.Kernels || far(s.StartNS, w.startNS) || far(s.EndNS, w.endNS) {
			t.Fatalf("step %d: %d kernels from %d to %d, differs: %v; want %+v", i+1, len(s.Kernels), s.StartNS, s.EndNS, s.Differs, *w)
		}
	}
}

// compareStepsReport compares the kinds in report --json with the log.
func compareStepsReport(t *testing.T, path string, want []stepInside) {
	t.Helper()
	run := harness.Tool(t, "report", "--json", path)
	run.MustBe(t, failure.OK)
	var r struct{ Steps []report.Steps }
	if err := json.Unmarshal([]byte(run.Stdout), &r); err != nil || len(r.Steps) != 1 {
		t.Fatalf("%v, steps of %d threads", err, len(r.Steps))
	}
	byKind := map[string][]int64{} // how long they took
	kernels := map[string]int64{}
	for _, s := range want {
		byKind[s.Kind] = append(byKind[s.Kind], s.endNS-s.startNS)
		kernels[s.Kind] = s.Kernels
	}
	if len(r.Steps[0].Kinds) != len(byKind) {
		t.Errorf("kinds %+v, want %v", r.Steps[0].Kinds, kernels)
	}
	for kind, took := range byKind {
		slices.Sort(took)
		i := slices.IndexFunc(r.Steps[0].Kinds, func(k report.StepsKind) bool { return k.Kernels == kernels[kind] })
		if i < 0 {
			t.Errorf("%s: no steps of %d kernels in %+v", kind, kernels[kind], r.Steps[0].Kinds)
			continue
		}
		k := r.Steps[0].Kinds[i]
		n, middle := int64(len(took)), len(took)/2
		least, most := took[max(0, middle-1)], took[min(len(took)-1, middle+1)]
		if k.Steps < n || k.Steps > n+1 || k.Steps-k.Different != n || k.P50NS < least*99/100-2*nearNS || k.P50NS > most*101/100+2*nearNS {
			t.Errorf("%s: %d steps, %d of them different, p50 %d ns, want %d of %d to %d ns", kind, k.Steps, k.Different, k.P50NS, n, least, most)
		}
		t.Logf("%s: %d steps of %d kernels, p50 %.3f ms, %d logged", kind, k.Steps, k.Kernels, float64(k.P50NS)/1e6, n)
	}
}
