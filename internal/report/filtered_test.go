package report

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/tracedb"
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
	for seed := range uint64(2) {
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

// mixed returns what writes kernels that overlap, in three queues, with barriers between some of them.
func mixed(seed uint64) produce {
	return func(t *testing.T, p *ringtest.Producer) {
		const each = 120
		random := rand.New(rand.NewPCG(seed, 5))
		header(t, p)
		index, others, at := [3]uint64{1000, 1000, 1000}, [3]uint64{}, [3]uint64{second + 1000, second + 1300, second + 900}
		for range each {
			for q := range uint32(3) {
				if random.IntN(6) == 0 {
					index[q]++
					others[q]++
				}
				at[q] += random.Uint64N(9000)
				length := random.Uint64N(8000)
				put(t, p, ring.Dispatch{
					Queue: q + 1, Launch: 1 + random.Uint32N(4), Index: index[q], TID: 500 + q,
					SubmitNS: at[q] - random.Uint64N(3000), StartNS: at[q], EndNS: at[q] + length,
				})
				index[q]++
				if random.IntN(3) > 0 {
					at[q] += length // else the next one may overlap
				}
			}
		}
		for q := range uint32(3) {
			put(t, p, ring.Window{Queue: q + 1, Kind: uint32(ring.WindowClose), TimeNS: second + 3_000_000, Index: index[q], Dispatches: each, Others: others[q]})
		}
		p.End(ring.EndRecord{End: uint32(ring.EndDetach), ArmedNS: second, DetachedNS: second + 3_000_000})
	}
}

// A recording with a filter has the report that the same filter makes of the whole recording.
func TestFilterHereOrThere(t *testing.T) {
	for seed := range uint64(3) {
		ringOf := func() *ringtest.Producer {
			p := ringtest.NewProducer(t, 1<<19)
			mixed(seed)(t, p)
			return p
		}
		whole, err := collect(t, ringOf(), ring.Counters{QueuesSeen: 3})
		must(t, err)
		for _, f := range []*filter.Filter{
			filterOf(t, filter.ExcludeRegex, "gemm|attention"),
			filterOf(t, filter.IncludeRegex, "."),
			filterOf(t, filter.IncludeRegex, "no such kernel"),
			filterOf(t, filter.IterationRange, "[3-9],[20-30]"),
			filterOf(t, filter.GPU, "0"),
		} {
			part, err := collectFiltered(t, ringOf(), ring.Counters{QueuesSeen: 3}, f)
			must(t, err)
			if a, b := viewsOf(t, whole), viewsOf(t, part); a != b {
				t.Errorf("seed %d, %v: busy and gap say %s of the whole trace, %s of the filtered recording", seed, f.Settings(), a, b)
			}
			there, err := Make(whole, Options{Filter: f})
			must(t, err)
			here, err := Make(part, Options{})
			must(t, err)
			there.Filters, here.Filters = nil, nil
			for _, r := range []*Report{there, here} {
				r.File, r.SizeBytes = "", 0
				r.Sessions = nil
				slices.SortFunc(r.LeftOutKernels, func(a, b LeftOut) int { return strings.Compare(a.Name, b.Name) })
				for i := range r.Queues { // rows that share a time count in its window
					r.Queues[i].Filtered = r.Queues[i].Coverage.Filtered
				}
			}
			if !reflect.DeepEqual(there, here) {
				t.Errorf("seed %d, %v: of the whole trace\n%+v\nof the filtered recording\n%+v", seed, f.Settings(), there, here)
			}
			if here.Coverage.Timed+here.Coverage.Filtered != 3*120 {
				t.Errorf("%+v", here.Coverage)
			}
		}
	}
}

// viewsOf returns the figures of the views busy and gap.
func viewsOf(t *testing.T, path string) (figures string) {
	t.Helper()
	db, err := tracedb.Open(path)
	must(t, err)
	defer db.Close()
	must(t, db.QueryRow("SELECT group_concat(gpuId || ': ' || busy_ns || ' of ' || wall_ns) FROM busy").Scan(&figures))
	var gaps string
	must(t, db.QueryRow("SELECT group_concat(start_ns || '-' || end_ns) FROM (SELECT * FROM gap ORDER BY gpu, start_ns)").Scan(&gaps))
	return figures + "; " + gaps
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
