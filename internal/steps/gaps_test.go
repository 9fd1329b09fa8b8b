package steps

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A model of 28 layers of 8 kernels, whose tokens have a kernel before and three behind: gaps inside tokens, at random or
// in the same places of each, define no steps, and prompts of several batches are so many steps.
func TestGapsInsideTokens(t *testing.T) {
	const layers, long = 28, 2_000_000
	for name, c := range map[string]struct {
		gap   int64                                  // before a step
		inner func(r *rand.Rand, kernel int64) int64 // before its other kernels
	}{
		"none":        {long, func(*rand.Rand, int64) int64 { return 0 }},
		"interrupted": {long, func(r *rand.Rand, _ int64) int64 { return at(r.IntN(30) == 0, r.Int64N(2*long)) }},
		"every 32":    {long, func(r *rand.Rand, k int64) int64 { return at(k%32 == 1 && r.IntN(3) == 0, long) }},
		"layers":      {long, func(_ *rand.Rand, k int64) int64 { return at(k%8 == 1 && k < 200, long/200) }},
		"splits":      {long, func(r *rand.Rand, k int64) int64 { return at(k%56 == 1 && k > 1 && k < 200, long+r.Int64N(long)) }},
	} {
		for seed := range uint64(5) {
			random := rand.New(rand.NewPCG(seed, 7))
			var s submits
			step := func(first int64) {
				add := func(k, name int64) {
					gap := c.gap
					if k > 0 {
						gap = c.inner(random, k)
					}
					s.add(gap, name)
				}
				add(0, 1)
				for k := range int64(8 * layers) {
					add(1+k, first+k%8)
				}
				for k := range int64(3) {
					add(1+8*layers+k, 2+k)
				}
			}
			prefills, decodes := int64(0), int64(0)
			for range 20 {
				for range 1 + random.IntN(3) {
					step(100)
					prefills++
				}
				for range 10 + random.IntN(20) {
					step(200)
					decodes++
				}
			}
			th, patterns, found := s.found(t, nil)
			if !found || len(th.Kinds) != 2 || th.Kinds[0].Steps != decodes || th.Kinds[1].Steps != prefills || th.Kinds[0].Kernels != 4+8*layers || th.Kinds[0].Part.Times != layers {
				t.Errorf("%s, seed %d: %d and %d steps: %+v, of %v kernels", name, seed, decodes, prefills, th, lengths(patterns))
			}
			if found && patterns[0][0] != 1 {
				t.Errorf("%s, seed %d: a step begins with kernel %d", name, seed, patterns[0][0])
			}
		}
	}
}

func at(here bool, ns int64) int64 {
	if here {
		return ns
	}
	return 0
}

func lengths(all [][]int64) (n []int) {
	for _, p := range all {
		n = append(n, len(p))
	}
	return n
}

// A sequence is divided by gaps before each of its equal steps only.
func TestDivides(t *testing.T) {
	one, graph := sequence(40, 8, 1), sequence(16, 3, 50)
	token := slices.Concat([]int64{90}, one, one, one, []int64{91, 92, 93, 94})
	for name, c := range map[string]struct {
		pieces [][]int64
		gaps   []int64 // before each
		want   bool
	}{
		"requests":                 {[][]int64{one, one, one, graph}, []int64{200_000, 200_000, 200_000, 40_000}, true},
		"no gap before the graph":  {[][]int64{one, one, one, graph}, []int64{200_000, 200_000, 200_000, 0}, false},
		"much shorter gaps":        {[][]int64{one, one, one, graph}, []int64{200_000, 20_000, 20_000, 20_000}, false},
		"one":                      {[][]int64{one, graph}, []int64{200_000, 200_000}, false},
		"gaps in a token":          {[][]int64{token[:41], token[41:81], token[81:]}, []int64{200_000, 300_000, 300_000}, false},
		"further kernels, no gaps": {[][]int64{token}, []int64{200_000}, false},
		"none":                     {[][]int64{one, one, one, graph}, []int64{0, 0, 0, 0}, false},
	} {
		var s submits
		f := newFinder(&search{bounds: &bounds{}}, 1, 1)
		for range 10 {
			for i, p := range c.pieces {
				s.add(c.gaps[i], p...)
			}
		}
		for i := range s.all {
			must(t, f.add(&s.all[i]))
		}
		if got := divides(f.sample, one, slices.Concat(c.pieces...)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Some kernels of a token are missing, as without times: the tokens behind begin where they do, also without gaps between.
func TestMissingKernels(t *testing.T) {
	const tokens, kernels = 200, 228
	token := slices.Concat([]int64{90}, sequence(224, 8, 1), []int64{91, 92, 93})
	for _, cut := range [][2]int{{0, 20}, {0, 200}, {10, 60}, {100, 101}, {100, 227}, {200, 228}} {
		var s submits
		for i := range tokens {
			if i == 20 || i == 90 {
				s.add(0, slices.Concat(token[:cut[0]], token[cut[1]:])...)
				continue
			}
			s.add(0, token...)
			if i%50 == 40 {
				s.add(0, sequence(200, 200, 1000)...)
			}
		}
		equal, begins := 0, true
		_, patterns, found := s.found(t, func(one Step) error {
			if !one.Differs && len(one.Kernels) == kernels {
				equal++
				begins = begins && one.Kernels[0].Name == 90
			}
			return nil
		})
		if !found || equal != tokens-2 || !begins {
			t.Errorf("without kernels %v: %d tokens found, %v begin right, of %v kernels", cut, equal, begins, lengths(patterns))
		}
	}
}
