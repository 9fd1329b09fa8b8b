package report

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/filter"
)

func filterOf(t *testing.T, settings ...string) *filter.Filter {
	t.Helper()
	var all []filter.Setting
	for i := 0; i < len(settings); i += 2 {
		all = append(all, filter.Setting{Name: settings[i], Value: settings[i+1]})
	}
	f, err := filter.New(all)
	must(t, err)
	return f
}

// A filter changes the list of kernels, and no busy or idle time and no cause of one.
func TestFilterKeepsTimes(t *testing.T) {
	for seed := range uint64(4) {
		sc := invent(t, rand.New(rand.NewPCG(seed, 3)), 150)
		whole, err := Make(sc.path, Options{})
		must(t, err)
		for _, f := range []*filter.Filter{
			filterOf(t, filter.IncludeRegex, "gemm<1>"),
			filterOf(t, filter.ExcludeRegex, "gemm<[12]>"),
			filterOf(t, filter.IncludeRegex, "no such kernel"),
			filterOf(t, filter.IterationRange, "[3-7],[20]"),
			filterOf(t, filter.IterationRange, "[2-30]", filter.ExcludeRegex, "_Z4gemmILi3E"),
			filterOf(t, filter.GPU, "1"),
			filterOf(t, filter.GPU, "00:00.0", filter.IncludeRegex, "gemm<2>"),
		} {
			part, err := Make(sc.path, Options{Filter: f})
			must(t, err)
			if part.Coverage.Timed+part.Coverage.Filtered != whole.Coverage.Timed || part.Coverage.Filtered == 0 {
				t.Errorf("seed %d, %v: %d timed and %d filtered, of %d", seed, f.Settings(), part.Coverage.Timed, part.Coverage.Filtered, whole.Coverage.Timed)
			}
			if part.Dispatched() != part.Coverage.Timed {
				t.Errorf("seed %d, %v: %d kernels, %d timed", seed, f.Settings(), part.Dispatched(), part.Coverage.Timed)
			}
			if a, b := timesOf(whole), timesOf(part); !reflect.DeepEqual(a, b) {
				t.Errorf("seed %d, %v: the filter changes times:\n%+v\n%+v", seed, f.Settings(), a, b)
			}
			checkLeftOut(t, whole, part)
		}
	}
}

// timesOf returns what a filter must not change.
func timesOf(r *Report) (all []any) {
	for _, g := range r.GPUs {
		all = append(all, g.Busy, g.AtLeast, g.GapsInAll, g.LongestGapNS, g.Gaps)
	}
	for _, q := range r.Queues {
		all = append(all, q.Busy)
	}
	for _, p := range r.PerProcess {
		all = append(all, p.Busy)
	}
	for _, g := range r.LongestGaps {
		g.Next, g.TID = "", 0
		all = append(all, g)
	}
	return all
}

// checkLeftOut compares the kernels and the kernels that were left out with those of the whole trace.
func checkLeftOut(t *testing.T, whole, part *Report) {
	t.Helper()
	type sum struct{ calls, totalNS int64 }
	sums := map[string]sum{}
	for _, k := range whole.Kernels {
		sums[k.Name] = sum{k.Calls, k.TotalNS}
	}
	for _, k := range part.Kernels {
		sums[k.Name] = sum{sums[k.Name].calls - k.Calls, sums[k.Name].totalNS - k.TotalNS}
	}
	for _, k := range part.LeftOutKernels {
		if sums[k.Name] != (sum{k.Calls, k.TotalNS}) {
			t.Errorf("%s: %d calls, %d ns left out, want %v", k.Name, k.Calls, k.TotalNS, sums[k.Name])
		}
		delete(sums, k.Name)
	}
	for name, s := range sums {
		if s != (sum{}) {
			t.Errorf("%s: %v is neither kept nor left out", name, s)
		}
	}
}

// The n-th dispatches of each name in each session are those in the order of the rows, from
// the begin of the session's window.
func TestIterationsAreCounted(t *testing.T) {
	sc := invent(t, rand.New(rand.NewPCG(9, 3)), 40)
	r, err := Make(sc.path, Options{Filter: filterOf(t, filter.IterationRange, "[2-4],[6]")})
	must(t, err)
	if len(r.Kernels) != 3 {
		t.Fatalf("%d kernels", len(r.Kernels))
	}
	for _, k := range r.Kernels {
		if k.Calls != 4*3 { // in each of three sessions
			t.Errorf("%s: %d calls, want 12", k.Name, k.Calls)
		}
	}
	var text strings.Builder
	must(t, r.WriteText(&text, false))
	for _, want := range []string{"Filter     --kernel-iteration-range '[2-4],[6]'  (of this report", " filtered out: ", "Filtered out"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, text.String())
		}
	}
}

// A report on some ranks has nothing of the others, as if only those had been recorded.
func TestRanksInReport(t *testing.T) {
	sc := invent(t, rand.New(rand.NewPCG(9, 4)), 40)
	r, err := Make(sc.path, Options{Filter: filterOf(t, filter.Rank, "3")}) // none has a rank
	must(t, err)
	if len(r.Sessions)+len(r.PerProcess)+len(r.Queues)+len(r.Losses) > 0 || r.Coverage.Dispatches+r.Coverage.Filtered+r.Coverage.QueuesSeen > 0 {
		t.Errorf("%+v", r.Summary)
	}
	if slices.ContainsFunc(r.Filters, func(f Filter) bool { return !f.InReport }) {
		t.Error(r.Filters)
	}
}
