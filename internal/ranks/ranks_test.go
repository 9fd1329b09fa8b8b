package ranks

import (
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Ranks that enter collectives at random are matched one by one, and no rank is late.
func TestBalanced(t *testing.T) {
	for _, one := range []bool{false, true} {
		for seed := range uint64(4) {
			r := random(seed)
			s := newScene(4)
			for range 200 {
				for rank := range 4 {
					s.compute(rank, gemm, 20_000+r.Int64N(80_000))
				}
				s.collective(allReduce, 10_000+r.Int64N(5000), 0, 1, 2, 3)
			}
			a := s.find(t, one)
			s.compare(t, a, 200)
			if len(a.Groups) != 1 || !slices.Equal(a.Groups[0].Ranks, []int{0, 1, 2, 3}) || a.Groups[0].Matched != 200 || a.Groups[0].Unmatched != 0 || a.Groups[0].Diverges != nil {
				t.Errorf("%+v", a.Groups)
			}
			if v := verdict(t, a); v.Late != nil || !v.Known {
				t.Errorf("%+v", v)
			}
		}
	}
}

// A rank that is late is found, however many other kernels have skews.
func TestLate(t *testing.T) {
	for seed := range uint64(4) {
		r := random(seed)
		s := newScene(8)
		for range 100 {
			for rank := range 8 {
				s.compute(rank, gemm, 20_000+r.Int64N(10_000))
			}
			s.compute(5, "topk", 200_000)
			s.collective(allReduce, 10_000, 0, 1, 2, 3, 4, 5, 6, 7)
			s.collective("vllm::cross_device_reduce_1stage", 5000, 0, 1, 2, 3, 4, 5, 6, 7)
		}
		a := s.find(t, seed%2 == 0)
		s.compare(t, a, 200)
		if v := verdict(t, a); v.Late == nil || *v.Late != 5 {
			t.Errorf("%+v", v)
		}
	}
}

// A rank lacks some collectives, and another has more than the others: the rest is matched, and the place is named.
func TestDiverging(t *testing.T) {
	for seed := range uint64(6) {
		r := random(seed)
		s := newScene(4)
		first := int64(0)
		for i := range 300 {
			for rank := range 4 {
				s.compute(rank, gemm, 5000+r.Int64N(40_000))
			}
			if i > 20 && r.IntN(20) == 0 {
				if first == 0 {
					first = s.at[2]
				}
				s.collective(allReduce, 12_000, 2)
			}
			s.collective(allReduce, 12_000, 0, 1, 2, 3)
		}
		lost := 0
		s.kernels = slices.DeleteFunc(s.kernels, func(k dispatched) bool {
			gone := k.number > 30 && k.rank == 1 && r.IntN(25) == 0
			if gone {
				lost++
			}
			return gone
		})
		a := s.find(t, false)
		s.compare(t, a, 300-lost)
		g := a.Groups[0]
		if g.Matched != int64(300-lost) || g.Diverges == nil || g.Diverges.AtNS > first {
			t.Errorf("%d lost: %+v, %+v; first %d", lost, g, g.Diverges, first)
		}
		if !slices.Contains(g.Diverges.Missing, 1) && !slices.Equal(g.Diverges.Missing, []int{0, 1, 3}) {
			t.Errorf("%+v", g.Diverges)
		}
	}
}

// The rank with most kernels lacks some: the others' are no collectives of a smaller group.
func TestLeaderLacks(t *testing.T) {
	s := newScene(4)
	r := random(5)
	for i := range 300 {
		for rank := range 4 {
			s.compute(rank, gemm, 5000+r.Int64N(40_000))
		}
		if i%4 == 0 {
			s.collective(allReduce, 12_000, 2)
		}
		s.collective(allReduce, 12_000, 0, 1, 2, 3)
	}
	lost := 0
	s.kernels = slices.DeleteFunc(s.kernels, func(k dispatched) bool {
		gone := k.rank == 2 && k.number > 30 && k.number%9 == 0
		if gone {
			lost++
		}
		return gone
	})
	a := s.find(t, false)
	alone := 0
	for i := range a.Collectives {
		if c := &a.Collectives[i]; c.Whole && c.Kernels != 4 {
			alone++
		}
	}
	if g := a.Groups[0]; len(a.Groups) != 1 || alone > 0 || g.Partly == 0 || lost == 0 {
		t.Errorf("%d lost, %d groups, %d alone: %+v", lost, len(a.Groups), alone, g)
	}
	s.compare(t, a, 200)
}

// Groups of two and four in eight GPUs are told apart by their times, also if their collectives have one name and one queue.
func TestGroups(t *testing.T) {
	for seed := range uint64(4) {
		r := random(seed)
		s := newScene(8)
		for i := range 200 {
			for rank := range 8 {
				s.compute(rank, gemm, 20_000+r.Int64N(60_000))
			}
			s.collective(allReduce, 10_000, 0, 1, 2, 3)
			s.collective(allReduce, 10_000, 4, 5, 6, 7)
			if i%4 == 0 {
				for rank := range 8 { // or all pairs would enter together, and nothing could tell them apart
					s.compute(rank, gemm, 20_000+r.Int64N(60_000))
				}
				for _, pair := range [][]int{{0, 4}, {1, 5}, {2, 6}, {3, 7}} {
					s.collective(allGather, 9000, pair...)
				}
			}
		}
		a := s.find(t, false)
		s.compare(t, a, 400)
		sizes := []int{}
		for _, g := range a.Groups {
			sizes = append(sizes, len(g.Ranks))
		}
		slices.Sort(sizes)
		if !slices.Equal(sizes, []int{2, 2, 2, 2, 4, 4}) {
			t.Errorf("groups of %v", sizes)
		}
	}
}

// Each rank is recorded from another time on, within a collective.
func TestBegins(t *testing.T) {
	s := newScene(4)
	r := random(3)
	for range 150 {
		for rank := range 4 {
			s.compute(rank, gemm, 20_000+r.Int64N(40_000))
		}
		s.collective(allReduce, 10_000, 0, 1, 2, 3)
	}
	s.kernels = slices.DeleteFunc(s.kernels, func(k dispatched) bool { return k.startNS < begin+int64(k.rank)*777_000 })
	a := s.find(t, false)
	s.compare(t, a, 100)
	if g := a.Groups[0]; g.Unmatched > 3 {
		t.Errorf("%+v, %+v", g, g.Diverges)
	}
}

// Replays of graphs with many collectives close to each other, in which some ranks have further kernels: each rank is recorded from and
// up to another place in a replay, and its clock is off by a constant time.
func TestReplays(t *testing.T) {
	for seed := range uint64(4) {
		r := random(seed)
		s := newScene(4)
		for replay := range 30 {
			s.compute(2, "topk", 300_000)
			for layer := range 8 + replay%3 {
				for rank := range 4 {
					s.compute(rank, gemm, 12_000+r.Int64N(2000))
					if rank%2 == 1 && layer == 0 {
						s.compute(rank, "norm", 2000)
					}
				}
				s.collective([]string{allReduce, "vllm::cross_device_reduce_1stage"}[layer%4/3], 6000, 0, 1, 2, 3)
			}
		}
		from, until := 3+r.IntN(20), s.number-5-r.IntN(20)
		s.kernels = slices.DeleteFunc(s.kernels, func(k dispatched) bool {
			return k.number >= 0 && (k.rank == 1 && k.number < from || k.rank == 3 && k.number > until)
		})
		for i := range s.kernels {
			clockNS := int64(s.kernels[i].rank) * int64(seed) * 400
			s.kernels[i].startNS += clockNS
			s.kernels[i].endNS += clockNS
		}
		a := s.find(t, seed%2 == 0)
		s.compare(t, a, until-from+1)
		if v := verdict(t, a); v.Late == nil || *v.Late != 2 {
			t.Errorf("seed %d: %+v", seed, v)
		}
		if a.Ambiguous > 0 || len(a.Groups) != 1 || a.Groups[0].Unmatched > 0 {
			t.Errorf("seed %d: %+v, %d ambiguous", seed, a.Groups[0], a.Ambiguous)
		}
	}
}

// Groups that enter at the same time are told apart by their communicators.
func TestCommunicators(t *testing.T) {
	s := newScene(4)
	for range 30 {
		for rank := range 4 {
			s.compute(rank, gemm, 20_000)
		}
		s.collective(allReduce, 10_000, 0, 1)
		s.collective(allReduce, 10_000, 2, 3)
	}
	a := &Analysis{ClockNS: ClockNS}
	process := &traceread.Process{}
	for rank := range 4 {
		a.Ranks = append(a.Ranks, &Rank{Process: process, GPU: int64(rank)})
		l := &lane{rank: rank, name: 1, comm: int32(1 + rank/2)}
		for _, k := range s.kernels {
			if k.rank == rank && k.number >= 0 {
				l.kernels = append(l.kernels, Kernel{k.startNS, k.endNS, -1})
			}
		}
		a.lanes = append(a.lanes, l)
	}
	a.match()
	s.compare(t, a, 60)
	if len(a.Groups) != 2 || a.Groups[0].MatchedBy != ByCommunicator || a.Groups[0].Matched != 30 || a.Groups[1].Matched != 30 {
		t.Errorf("%+v", a.Groups)
	}
}

// Kernels at random times, with the names of collectives, are no collectives.
func TestRandom(t *testing.T) {
	for seed := range uint64(20) {
		r := random(seed)
		s := newScene(4 + int(seed%5))
		for rank := range s.ranks {
			for range 300 {
				s.at[rank] += r.Int64N(100_000)
				s.compute(rank, []string{allReduce, gemm, allGather}[r.IntN(3)], 1000+r.Int64N(100_000))
			}
		}
		a := s.find(t, seed%2 == 0)
		if v := verdict(t, a); v.Late != nil {
			t.Errorf("seed %d: %+v", seed, v)
		}
	}
}

// Two ranks that are last in turns: none is late more than by chance.
func TestTwo(t *testing.T) {
	r := random(9)
	s := newScene(2)
	for range 300 {
		for rank := range 2 {
			s.compute(rank, gemm, 20_000+r.Int64N(80_000))
		}
		s.collective(allReduce, 10_000, 0, 1)
	}
	if v := verdict(t, s.find(t, false)); v.Late != nil || !v.Known {
		t.Errorf("%+v", v)
	}
}

// One rank alone, and too few collectives, are not judged.
func TestAbstains(t *testing.T) {
	s := newScene(1)
	for range 50 {
		s.compute(0, gemm, 20_000)
		s.collective(allReduce, 10_000, 0)
	}
	if v := verdict(t, s.find(t, true)); v.Known || v.Late != nil {
		t.Errorf("%+v", v)
	}
	few := newScene(2)
	for range 10 {
		few.compute(0, gemm, 500_000)
		few.collective(allReduce, 10_000, 0, 1)
	}
	if v := verdict(t, few.find(t, false)); v.Known || v.Late != nil {
		t.Errorf("%+v", v)
	}
	none := newScene(2)
	none.compute(0, gemm, 1000)
	if a := none.find(t, false); a != nil {
		t.Errorf("%+v", a)
	}
}
