package truth

import (
	"cmp"
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
			d := 2500 * time.Millisecond
			if testenv.Long() {
				d = one.long
			}
			p, run := recordLlama(t, d, one.args)
			check(t, p, nil, run).MustHaveRecorded(searchedKernels)
			want := stepsInside(t, p, run)
			compareStepsReport(t, run.Trace, want, compareStepsFound(t, run.Trace, want))
		})
	}
}

// recordLlama records a server like llama.cpp's for d, or for longer until that has enough kernels. The tool ends the recording, and not
// an answer of the server, which may come minutes and millions of kernels later: while the kernel's own threads get no processor, the
// loopback passes nothing on.
func recordLlama(t *testing.T, d time.Duration, args []string) (*harness.Process, harness.Run) {
	t.Helper()
	for {
		p := harness.Start(t, harness.LlamaLike(args...))
		run := p.MustRecordLast(t, p.Begin(t, "-d", d.String(), "--buffer-policy", "lossless", "--set", "RTL_SIGNAL_POOL=65536"))
		if err := run.Decode(); err != nil {
			t.Fatal(err)
		}
		if run.Summary.Coverage.Timed >= searchedKernels {
			return p, run
		}
		p.Wait(t)
		d *= 2
	}
}

// stepInside is a step of which kernels are in a trace, with the simulator's times of these.
type stepInside struct {
	harness.LoggedStep
	startNS, endNS int64
	cut            bool // some of its kernels are not in the trace: at its ends, or because they have no times
	beside         bool // it is next to such a step
}

// stepsInside returns the steps in a trace, by their log.
func stepsInside(t *testing.T, p *harness.Process, run harness.Run) (inside []stepInside) {
	t.Helper()
	all := p.StepsLog(t)
	found, kernels := make([]stepInside, len(all)), make([]int64, len(all))
	eachKernel(t, p, run, func(_ *harness.Dispatch, number uint64, r *simlog.Record) {
		n := sort.Search(len(all), func(i int) bool { return all[i].First > int64(number) }) - 1
		if kernels[n]++; kernels[n] == 1 {
			found[n] = stepInside{LoggedStep: all[n], startNS: math.MaxInt64}
		}
		found[n].startNS, found[n].endNS = min(found[n].startNS, int64(r.StartNS)), max(found[n].endNS, int64(r.EndNS))
	})
	for n, s := range found {
		if kernels[n] == 0 {
			continue
		}
		s.cut = kernels[n] < s.Kernels
		s.beside = n > 0 && kernels[n-1] < all[n-1].Kernels || n+1 < len(all) && kernels[n+1] < all[n+1].Kernels
		if s.startNS < s.BeginNS || s.endNS > s.EndNS {
			t.Errorf("%+v: the simulator ran it from %d to %d", s.LoggedStep, s.startNS, s.endNS)
		}
		inside = append(inside, s)
	}
	return inside
}

// compareStepsFound compares each step that is found with the log. Of a step that is cut, a part may count as a step that differs, and
// kernels of its neighbours with it.
// It returns how many are found.
func compareStepsFound(t *testing.T, path string, want []stepInside) int64 {
	t.Helper()
	found := findSteps(t, path)
	starts := map[int64]*stepInside{} // of the steps that have to be found
	for i := range want {
		w := &want[i]
		at, exact := slices.BinarySearchFunc(found, w.startNS-nearNS, func(s steps.Step, ns int64) int { return cmp.Compare(s.StartNS, ns) })
		switch {
		case w.cut || w.beside && !exact && (at == len(found) || far(found[at].StartNS, w.startNS)):
			continue
		case at == len(found) || far(found[at].StartNS, w.startNS):
			t.Errorf("not found: %+v", *w)
			continue
		}
		s := &found[at]
		starts[s.StartNS] = w
		if !w.beside && (s.Differs || int64(len(s.Kernels)) != w.Kernels || far(s.EndNS, w.endNS)) {
			t.Errorf("%d kernels from %d to %d, differs: %v; want %+v", len(s.Kernels), s.StartNS, s.EndNS, s.Differs, *w)
		}
	}
	for i := range found {
		s := &found[i]
		n := sort.Search(len(want), func(i int) bool { return want[i].startNS > s.StartNS+nearNS }) - 1
		if starts[s.StartNS] == nil && n >= 0 && !want[n].cut && !want[n].beside {
			t.Errorf("step %d, %d kernels from %d to %d, is none; it is in %+v", s.Number, len(s.Kernels), s.StartNS, s.EndNS, want[n])
		}
	}
	return int64(len(found))
}

// findSteps returns the steps that are found in a trace, by their begin.
func findSteps(t *testing.T, path string) (found []steps.Step) {
	t.Helper()
	tr, err := traceread.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
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
	slices.SortFunc(found, func(a, b steps.Step) int { return cmp.Compare(a.StartNS, b.StartNS) })
	return found
}

// compareStepsReport compares the kinds in report --json with the log, and their number with that of the steps found.
func compareStepsReport(t *testing.T, path string, want []stepInside, found int64) {
	t.Helper()
	run := harness.Tool(t, "report", "--json", path)
	run.MustBe(t, failure.OK)
	var r struct{ Steps []report.Steps }
	if err := json.Unmarshal([]byte(run.Stdout), &r); err != nil || len(r.Steps) != 1 {
		t.Fatalf("%v, steps of %d threads", err, len(r.Steps))
	}
	if r.Steps[0].Steps != found {
		t.Errorf("%d steps in the report, %d found", r.Steps[0].Steps, found)
	}
	byKind := map[string][]int64{} // how long they took
	kernels, unclear := map[string]int64{}, int64(0)
	for _, s := range want {
		if s.cut || s.beside {
			unclear++
		}
		if !s.cut {
			byKind[s.Kind] = append(byKind[s.Kind], s.endNS-s.startNS)
			kernels[s.Kind] = s.Kernels
		}
	}
	if len(r.Steps[0].Kinds) != len(byKind) {
		t.Errorf("%d kinds, want %v", len(r.Steps[0].Kinds), kernels)
	}
	for kind, took := range byKind {
		slices.Sort(took)
		i := slices.IndexFunc(r.Steps[0].Kinds, func(k report.StepsKind) bool { return k.Kernels == kernels[kind] })
		if i < 0 {
			t.Errorf("%s: no steps of %d kernels", kind, kernels[kind])
			continue
		}
		k := r.Steps[0].Kinds[i]
		n, middle, off := int64(len(took)), len(took)/2, int(unclear)+1
		least, most := took[max(0, middle-off)], took[min(len(took)-1, middle+off)]
		if k.Steps < n-unclear || k.Steps > n+unclear || k.P50NS < least*99/100-2*nearNS || k.P50NS > most*101/100+2*nearNS {
			t.Errorf("%s: %d steps, p50 %d ns, want %d of %d to %d ns, of which %d are unclear", kind, k.Steps, k.P50NS, n, least, most, unclear)
		}
		t.Logf("%s: %d steps of %d kernels, p50 %.3f ms, %d logged; %d steps of all kinds are cut, or beside one", kind, k.Steps, k.Kernels, float64(k.P50NS)/1e6, n, unclear)
	}
}
