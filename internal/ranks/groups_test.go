package ranks

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// twoGroups describes two groups of four ranks that run the same model, with kernels of one name.
type twoGroups struct {
	steps    int
	layers   int
	computes int64 // ns
	varyNS   int64 // what each rank adds at random
	jitterNS int64 // what each group adds at random to a step
	syncs    int   // the groups begin each so-many-th step together; 0: never
	late     int   // rank of the second group; -1: none
	lateNS   int64 // in each step
	roundNS  int64 // kernels start at multiples of it, as where a GPU gets work in rounds; 0: at any time
	lost     int   // one in so many kernels is missing; 0: none
	world    int   // each so-many-th step ends with a collective of all ranks; 0: none does
}

// scene plays the groups.
func (g twoGroups) scene(r *rand.Rand) *scene {
	s := newScene(8)
	s.roundNS, s.inStep = g.roundNS, true
	for i := range g.steps {
		if g.syncs > 0 && i%g.syncs == 0 {
			together := slices.Max(s.at)
			for rank := range s.at {
				s.at[rank] = together
			}
		}
		for group := range 2 {
			ranks := []int{group * 4, group*4 + 1, group*4 + 2, group*4 + 3}
			later := r.Int64N(g.jitterNS + 1)
			for _, rank := range ranks {
				s.at[rank] += later
			}
			for range g.layers {
				for _, rank := range ranks {
					s.compute(rank, gemm, g.computes+r.Int64N(g.varyNS+1))
				}
				if g.late >= 0 && group == 1 {
					s.compute(g.late, "topk", g.lateNS)
				}
				s.collective(allReduce, 20_000, ranks...)
			}
		}
		if g.world > 0 && i%g.world == 0 {
			for rank := range 8 {
				s.compute(rank, gemm, g.computes+r.Int64N(g.varyNS+1))
			}
			s.collective(allReduce, 20_000, 0, 1, 2, 3, 4, 5, 6, 7)
		}
	}
	if g.lost > 0 {
		s.kernels = slices.DeleteFunc(s.kernels, func(k dispatched) bool { return k.number >= 0 && r.IntN(g.lost) == 0 })
	}
	return s
}

func (a *Analysis) sizes() (sizes []int) {
	for _, g := range a.Groups {
		sizes = append(sizes, len(g.Ranks))
	}
	slices.Sort(sizes)
	return sizes
}

// Groups whose collectives of one name often end together are not taken for one: the ranks that take part are the same in
// all collectives.
func TestGroupsInStep(t *testing.T) {
	base := twoGroups{steps: 150, layers: 2, computes: 50_000, varyNS: 2000, late: -1}
	with := func(change func(*twoGroups)) twoGroups {
		g := base
		change(&g)
		return g
	}
	for name, g := range map[string]twoGroups{
		"rounds":           with(func(g *twoGroups) { g.roundNS = 100_000 }),
		"rounds, late":     with(func(g *twoGroups) { g.roundNS, g.late, g.lateNS = 100_000, 5, 3_000_000 }),
		"rounds, jitter":   with(func(g *twoGroups) { g.roundNS, g.jitterNS = 40_000, 60_000 }),
		"lockstep, 3 us":   with(func(g *twoGroups) { g.syncs, g.jitterNS, g.varyNS = 1, 3000, 10_000 }),
		"lockstep, 10 us":  with(func(g *twoGroups) { g.syncs, g.jitterNS, g.varyNS = 1, 10_000, 10_000 }),
		"lockstep, 30 us":  with(func(g *twoGroups) { g.syncs, g.jitterNS, g.varyNS = 4, 30_000, 30_000 }),
		"lockstep, late":   with(func(g *twoGroups) { g.syncs, g.jitterNS, g.late, g.lateNS = 1, 8000, 5, 20_000 }),
		"kernels are lost": with(func(g *twoGroups) { g.syncs, g.jitterNS, g.varyNS, g.lost = 1, 12_000, 10_000, 15 }),
		"lost, rounds":     with(func(g *twoGroups) { g.roundNS, g.jitterNS, g.lost = 60_000, 90_000, 12 }),
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(6) {
				s := g.scene(random(seed))
				a := s.match()
				s.compare(t, a, 0)
				if v := verdict(t, a); v.Late != nil && (g.late < 0 || *v.Late != g.late) {
					t.Errorf("seed %d: %+v", seed, v)
				}
				t.Logf("seed %d: groups of %v, %d kernels ambiguous", seed, a.sizes(), a.Ambiguous)
			}
		})
	}
}

// Two groups that always end together cannot be told apart: nothing is said of them, and their kernels are counted.
func TestGroupsAlwaysTogether(t *testing.T) {
	s := newScene(8)
	r := random(1)
	for range 200 {
		for rank := range 4 {
			ns := 20_000 + r.Int64N(60_000)
			s.compute(rank, gemm, ns)
			s.compute(rank+4, gemm, ns)
		}
		s.collective(allReduce, 10_000, 0, 1, 2, 3)
		s.collective(allReduce, 10_000, 4, 5, 6, 7)
	}
	a := s.match()
	s.compare(t, a, 0)
	if v := verdict(t, a); v.Known || v.Late != nil || a.Ambiguous != 8*200 {
		t.Errorf("%+v, %d ambiguous, %v", v, a.Ambiguous, a.sizes())
	}
}

// Collectives of all ranks between those of two groups, all with one name, count for no group of four.
func TestNestedGroups(t *testing.T) {
	for seed := range uint64(6) {
		g := twoGroups{steps: 200, layers: 2, computes: 50_000, varyNS: 40_000, late: -1, world: 2, lost: []int{0, 20}[seed%2]}
		s := g.scene(random(seed))
		a := s.match()
		s.compare(t, a, 200)
		t.Logf("seed %d: groups of %v, %d kernels ambiguous", seed, a.sizes(), a.Ambiguous)
	}
}

// One group stays one, whatever is lost of it, and however close its ranks enter.
func TestOneGroup(t *testing.T) {
	for _, varyNS := range []int64{500, 3000, 12_000, 80_000} {
		for _, lost := range []int{0, 10, 30} {
			t.Run(fmt.Sprint(varyNS, " ns, lost ", lost), func(t *testing.T) {
				r := random(uint64(varyNS) + uint64(lost))
				s := newScene(8)
				for i := range 300 {
					for rank := range 8 {
						s.compute(rank, gemm, 20_000+r.Int64N(varyNS))
					}
					if i%8 == 0 {
						s.collective(allReduce, 20_000, 2)
					}
					s.collective(allReduce, 20_000, 0, 1, 2, 3, 4, 5, 6, 7)
				}
				hole := func(k dispatched) bool { // of all ranks of one process
					return lost > 0 && (k.number%100 < 9 && k.rank < 4 || k.number%100 > 90 && k.rank > 3)
				}
				s.kernels = slices.DeleteFunc(s.kernels, func(k dispatched) bool {
					return k.number >= 0 && (hole(k) || lost > 0 && r.IntN(lost) == 0)
				})
				a := s.match()
				s.compare(t, a, map[int]int{0: 300, 10: 60, 30: 150}[lost])
				if len(a.Groups) != 1 || len(a.Groups[0].Ranks) != 8 || a.Ambiguous > 0 {
					t.Errorf("groups of %v, %d ambiguous", a.sizes(), a.Ambiguous)
				}
				if v := verdict(t, a); v.Late != nil && *v.Late != 2 {
					t.Errorf("%+v", v)
				}
			})
		}
	}
}

// In a graph's replay, ranks hardly wait behind its first collective. That they seldom do, and then for two ranks, leaves those
// collectives out, and not all others.
func TestSeldomSkewed(t *testing.T) {
	s := newScene(4)
	r := random(3)
	const all, skewed = 240, 10
	for i := range all {
		for rank := range 4 {
			ns := 50_000 + r.Int64N(2000)
			if i%(all/skewed) == 7 && rank > 1 {
				ns += 8000
			}
			s.compute(rank, gemm, ns)
		}
		s.collective(allReduce, 20_000, 0, 1, 2, 3)
	}
	a := s.match()
	s.compare(t, a, all-skewed)
	if v := verdict(t, a); !v.Known || v.Late != nil || a.Ambiguous != 4*skewed || len(a.Groups) != 1 || a.Groups[0].Unmatched > 0 {
		t.Errorf("%+v, %d ambiguous, %v", v, a.Ambiguous, a.sizes())
	}
}

// Groups with random properties: nothing wrong is said.
func TestGroupsAtRandom(t *testing.T) {
	matched, all := 0, 0
	for seed := range uint64(150) {
		r := random(seed)
		pick := func(of ...int64) int64 { return of[r.IntN(len(of))] }
		g := twoGroups{
			steps: 60 + r.IntN(100), layers: 1 + r.IntN(4), computes: pick(5000, 30_000, 90_000), varyNS: pick(300, 4000, 40_000), jitterNS: pick(0, 2000, 9000, 50_000),
			syncs: int(pick(0, 1, 1, 3)), late: int(pick(-1, -1, 4, 7)), lateNS: pick(8000, 100_000), roundNS: pick(0, 0, 30_000, 120_000), lost: int(pick(0, 0, 10, 40)),
		}
		s := g.scene(r)
		a := s.match()
		s.compare(t, a, 0)
		if v := verdict(t, a); v.Late != nil && (g.late < 0 || *v.Late != g.late) {
			t.Errorf("seed %d: %+v", seed, v)
		}
		if t.Failed() {
			t.Fatalf("seed %d: %+v: groups of %v, %d kernels ambiguous", seed, g, a.sizes(), a.Ambiguous)
		}
		for _, one := range a.Groups {
			matched += int(one.Matched)
		}
		for _, one := range s.truths() {
			if one.ranks == 4 {
				all++
			}
		}
	}
	t.Logf("%d of %d collectives matched", matched, all)
}
