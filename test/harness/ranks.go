package harness

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/simlog"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// Ranks is the workload ranks: GPUs that enter collectives together, in one process or in a process each.
type Ranks struct {
	*Process // to record
	ranks    int
	logs     string
	fleet    *Fleet // nil: they are in one process
}

// StartRanks returns when all ranks dispatch.
func StartRanks(t testing.TB, ranks int, inOne bool, args ...string) *Ranks {
	t.Helper()
	if given(t) != nil {
		testenv.Skip(t, "the workload ranks runs on the machine's own runtime only")
	}
	dir, n := t.TempDir(), strconv.Itoa(ranks)
	meet := "SOFTGPU_RENDEZVOUS=" + filepath.Join(dir, "meet")
	r := &Ranks{ranks: ranks, logs: filepath.Join(dir, "truth")}
	if inOne {
		r.Process = StartCold(t, Workload{Program: "ranks", Args: append([]string{"--ranks", n}, args...), Sim: []string{"SOFTGPU_GPUS=" + n, meet}})
		r.Ready(t)
		Until(t, "the ranks dispatch", r.Dispatches(t, 100*ranks))
		return r
	}
	command := append([]string{
		"--workers", n, "--gpus", n, "--log", r.logs, "--preload", testenv.Artefact(t, "libsoftgpu.so"),
		"--", testenv.Artefact(t, "workloads/ranks"), "--world", n, "--agreement", filepath.Join(dir, "agreement"),
	}, args...)
	r.Process = StartCold(t, Workload{Program: "frontend", NoGPU: true, Under: []string{"env", meet}, Args: command})
	r.fleet = &Fleet{Process: r.Process, logs: r.logs, own: map[int]int{}}
	r.Ready(t)
	for _, w := range r.fleet.Workers(t) {
		Until(t, "the ranks dispatch", w.Dispatches(t, 100))
	}
	return r
}

// Entry is a kernel of a collective, as the simulator ran it.
type Entry struct {
	Rank           int
	StartNS, EndNS int64
	ID             uint64 // of its launch; 0: a replay of a graph has it
}

// Collective is what belongs together by the simulator's log: the n-th kernel of a group on each GPU.
type Collective struct {
	Name    string
	Ranks   int // that take part
	Entries []Entry
}

// Truth ends the ranks, and returns their collectives, and all kernels of each rank in the order of starts.
func (r *Ranks) Truth(t testing.TB) (all []*Collective, kernels map[int][]*simlog.Record) {
	t.Helper()
	paths := []string{r.log}
	if r.fleet == nil {
		r.Quit(t)
	} else {
		r.fleet.Quit(t, r.fleet.Workers(t))
		var err error
		if paths, err = filepath.Glob(r.logs + ".*"); err != nil {
			t.Fatal(err)
		}
	}
	return RanksTruth(t, paths...)
}

// RanksTruth returns the same of the simulator's logs.
func RanksTruth(t testing.TB, paths ...string) (all []*Collective, kernels map[int][]*simlog.Record) {
	t.Helper()
	kernels = map[int][]*simlog.Record{}
	for _, path := range paths {
		if err := simlog.Wait(path); err != nil {
			t.Fatal(err)
		}
		for one, err := range simlog.All(path) {
			if err != nil {
				t.Fatal(err)
			}
			if one.Kind == simlog.Violation && !one.Code.IsNotice() {
				t.Errorf("%v", one)
			}
			if one.Kind == simlog.Kernel && one.Flags&(simlog.Internal|simlog.Abandoned) == 0 {
				kernels[one.Node] = append(kernels[one.Node], one)
			}
		}
	}
	return together(kernels), kernels
}

// together numbers the kernels of each group on each GPU.
func together(kernels map[int][]*simlog.Record) (all []*Collective) {
	type key struct{ group, number int }
	known := map[key]*Collective{}
	for _, rank := range slices.Sorted(maps.Keys(kernels)) {
		slices.SortStableFunc(kernels[rank], func(a, b *simlog.Record) int { return int(int64(a.StartNS) - int64(b.StartNS)) })
		numbers := map[int]int{}
		for _, k := range kernels[rank] {
			group := int(k.Grid[2])
			if k.Grid[1] < 2 || !strings.Contains(k.Name, "ncclDevKernel") && !strings.Contains(k.Name, "cross_device_reduce") {
				continue
			}
			at := key{group, numbers[group]}
			numbers[group]++
			if known[at] == nil {
				known[at] = &Collective{Name: k.Name, Ranks: int(k.Grid[1])}
				all = append(all, known[at])
			}
			known[at].Entries = append(known[at].Entries, Entry{rank, int64(k.StartNS), int64(k.EndNS), k.UniqueID})
		}
	}
	return all
}

// EachDispatches is a condition for Until: each rank has n more dispatches than now, of one process on average.
func (r *Ranks) EachDispatches(t testing.TB, n int) func() bool {
	t.Helper()
	if r.fleet == nil {
		return r.Dispatches(t, n*r.ranks)
	}
	all := []func() bool{}
	for _, w := range r.fleet.Workers(t) {
		all = append(all, w.Dispatches(t, n))
	}
	return func() bool { return !slices.ContainsFunc(all, func(reached func() bool) bool { return !reached() }) }
}
