package ranks

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const (
	allReduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
	allGather = "ncclDevKernel_AllGather_RING_LL"
	gemm      = "gemm"
)

// dispatched is a kernel of a scene. Of a collective, number says which.
type dispatched struct {
	rank, queue    int
	name           string
	startNS, endNS int64
	number         int // of the collective; -1: none
}

// scene is the kernels of some ranks, each with a GPU and a process.
type scene struct {
	ranks   int
	kernels []dispatched
	at      []int64 // each rank's time
	number  int
	inStep  bool  // groups may count as one where no rank waits long, and none is said to be last
	roundNS int64 // kernels start shortly after multiples of it; 0: at any time
}

const begin = 1_000_000_000

func newScene(ranks int) *scene {
	s := &scene{ranks: ranks, at: make([]int64, ranks)}
	for i := range s.at {
		s.at[i] = begin
	}
	return s
}

// begin moves a rank to where its next kernel starts.
func (s *scene) begin(rank int) {
	if s.roundNS > 0 {
		s.at[rank] = (s.at[rank]+s.roundNS-1)/s.roundNS*s.roundNS + int64(rank)*200
	}
}

// compute runs a kernel on a rank.
func (s *scene) compute(rank int, name string, ns int64) {
	s.begin(rank)
	s.kernels = append(s.kernels, dispatched{rank, 0, name, s.at[rank], s.at[rank] + ns, -1})
	s.at[rank] += ns + 1000
}

// collective runs a collective on some ranks: it ends ns after the last one has entered, on each within a microsecond.
func (s *scene) collective(name string, ns int64, ranks ...int) {
	last := int64(0)
	for _, r := range ranks {
		s.begin(r)
		last = max(last, s.at[r])
	}
	for i, r := range ranks {
		end := last + ns + int64(i*100)
		s.kernels = append(s.kernels, dispatched{r, 1, name, s.at[r], end, s.number})
		s.at[r] = end + 1000
	}
	s.number++
}

// write writes a trace of processes, or of one process with all GPUs, and opens it.
func (s *scene) write(t testing.TB, oneProcess bool) *traceread.Trace {
	t.Helper()
	place := filepath.Join(t.TempDir(), "trace.db")
	db, err := tracedb.Create(tracedb.Place{Path: place})
	must(t, err)
	until := uint64(begin)
	for _, k := range s.kernels {
		until = max(until, uint64(k.endNS))
	}
	names := []string{}
	for _, k := range s.kernels {
		if !slices.Contains(names, k.name) {
			names = append(names, k.name)
		}
	}
	var session *tracedb.Session
	for r := range s.ranks {
		id := uint32(1)
		if r == 0 || !oneProcess {
			session, err = db.Begin(tracedb.SessionInfo{PID: uint32(100 + r), StartTicks: 7, Command: "worker", Host: "node"})
			must(t, err)
			for i, name := range names {
				must(t, session.Launch(tracedb.Launch{ID: uint32(i + 1), Agent: 1, Symbol: name}))
			}
		} else {
			id = uint32(r + 1)
		}
		must(t, session.Agent(tracedb.Agent{ID: id, GPU: uint32(r), BDF: uint32(r) << 8, Name: "gfx942"}))
		var batch []tracedb.Dispatch
		for q := range uint32(2) {
			must(t, session.Queue(tracedb.Queue{ID: id*2 + q, Agent: id, HSAID: uint64(q)}))
		}
		for i, k := range s.kernels {
			if k.rank == r {
				batch = append(batch, tracedb.Dispatch{
					Queue: id*2 + uint32(k.queue), Launch: uint32(slices.Index(names, k.name) + 1), TID: 7, Index: uint64(i),
					StartNS: uint64(k.startNS), EndNS: uint64(k.endNS), SubmitNS: uint64(k.startNS) - 500,
				})
			}
		}
		must(t, session.Dispatches(batch))
		if !oneProcess || r == s.ranks-1 {
			must(t, session.End(tracedb.End{Reason: "detached", ArmedNS: begin, DetachedNS: until}))
		}
	}

	must(t, db.Close())
	tr, err := traceread.Open(t.Context(), place)
	must(t, err)
	t.Cleanup(tr.Close)
	return tr
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

var _ = all.Kinds

// find analyses a scene.
func (s *scene) find(t testing.TB, oneProcess bool) *Analysis {
	t.Helper()
	a, err := Find(t.Context(), s.write(t, oneProcess), Options{Window: traceread.Always})
	must(t, err)
	return a
}

// match analyses a scene's collectives without a trace.
func (s *scene) match() *Analysis {
	a := &Analysis{ClockNS: ClockNS, names: map[int64]bool{1: true}}
	process := &traceread.Process{}
	for rank := range s.ranks {
		a.Ranks = append(a.Ranks, &Rank{Process: process, GPU: int64(rank)})
		l := &lane{rank: rank, name: 1}
		for _, k := range s.kernels {
			if k.rank == rank && k.number >= 0 {
				l.kernels = append(l.kernels, Kernel{k.startNS, k.endNS, -1})
			}
		}
		slices.SortFunc(l.kernels, func(x, y Kernel) int { return cmp.Compare(x.EndNS, y.EndNS) })
		a.lanes = append(a.lanes, l)
	}
	a.match()
	return a
}

// truth is what a collective is by brute force.
type truth struct{ ranks, skewNS, lastNS int64 }

func (s *scene) truths() map[int]truth {
	all := map[int]truth{}
	first := map[int]int64{}
	for _, k := range s.kernels {
		if k.number < 0 {
			continue
		}
		one := all[k.number]
		if one.ranks == 0 || k.startNS < first[k.number] {
			first[k.number] = k.startNS
		}
		one.ranks++
		one.lastNS = max(one.lastNS, k.startNS)
		one.skewNS = one.lastNS - first[k.number]
		all[k.number] = one
	}
	return all
}

// compare compares the collectives that were found with the scene's, kernel by kernel.
func (s *scene) compare(t *testing.T, a *Analysis, least int) {
	t.Helper()
	of := map[string]int{} // of the kernel
	for _, k := range s.kernels {
		of[fmt.Sprint(k.rank, k.name, k.startNS, k.endNS)] = k.number
	}
	names := map[int64]string{}
	truths := s.truths()
	seen := map[int32]int{}
	whole := 0
	for n := range a.Ranks {
		must(t, a.EachByStart(n, func(name int64, k *Kernel) error {
			if k.Collective < 0 {
				return nil
			}
			number := -1
			for _, text := range []string{allReduce, allGather, "vllm::cross_device_reduce_1stage"} {
				if got, has := of[fmt.Sprint(a.rankOf(n), text, k.StartNS, k.EndNS)]; has && (names[name] == "" || names[name] == text) {
					names[name], number = text, got
				}
			}
			if c := &a.Collectives[k.Collective]; s.inStep && c.SkewNS() <= slackNS && !a.Called(c) {
				return nil
			}
			if before, known := seen[k.Collective]; known && before != number || number < 0 {
				t.Errorf("rank %d: %+v is of collective %d, others of it are of %d", n, k, number, before)
			}
			seen[k.Collective] = number
			return nil
		}))
	}
	for i, number := range seen {
		c, want := &a.Collectives[i], truths[number]
		if c.Whole {
			whole++
			if want.skewNS != c.SkewNS() || want.lastNS != c.LastNS || int64(c.Kernels) != want.ranks {
				t.Errorf("%+v, want %+v", c, want)
			}
		}
	}
	if whole < least {
		t.Errorf("%d collectives of all ranks, want at least %d", whole, least)
	}
}

// rankOf returns the scene's number of a rank: its GPU.
func (a *Analysis) rankOf(n int) int { return int(a.Ranks[n].GPU) }

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 11)) }
