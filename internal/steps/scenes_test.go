package steps

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/graphs"
)

// llama makes the kernels of a model with many layers, which prefill and decode submit to two queues.
type llama struct {
	submits
	random *rand.Rand
	freeNS [2]int64
	gapNS  int64 // before a step
}

const layers = 32

func (l *llama) kernel(name int64, queue int, ns int64) {
	l.atNS += 2000
	start := max(l.atNS+1000, l.freeNS[queue])
	l.freeNS[queue] = start + ns
	l.all = append(l.all, graphs.Step{AtNS: l.atNS, StartNS: start, DurationNS: ns, Name: name, Launch: 1000*l.random.Int64N(50) + name, Queue: int64(queue)})
}

// step submits a step. Names from first on are its own, except the embedding's, the norm's and the sampler's.
func (l *llama) step(first, ns int64) {
	l.atNS += l.gapNS
	l.kernel(1, 0, 3000)
	for range layers {
		for k := range int64(12) {
			name := first + k
			if k == 0 || k == 6 {
				name = 2 // the norm
			}
			l.kernel(name, int(k/6), ns+l.random.Int64N(200))
		}
	}
	l.kernel(2, 0, 3000)
	l.kernel(3, 0, 20000)
	l.kernel(4, 1, 4000)
}

func (l *llama) prefill() { l.step(100, 8000) }
func (l *llama) decode()  { l.step(200, 1500) }

// Prefill and decode steps are found with their layers, with and without gaps, in any mixture.
func TestLlama(t *testing.T) {
	for _, gapNS := range []int64{0, 60_000} {
		for seed := range uint64(5) {
			t.Run(fmt.Sprintf("gap %d seed %d", gapNS, seed), func(t *testing.T) {
				l := &llama{random: rand.New(rand.NewPCG(seed, 1)), gapNS: gapNS}
				prefills, decodes := int64(0), int64(0)
				for prefills+decodes < 150 {
					if prefills == 0 || l.random.IntN(6) == 0 {
						l.prefill()
						prefills++
						continue
					}
					l.decode()
					decodes++
				}
				th, patterns, found := l.found(t, nil)
				if !found || len(th.Kinds) != 2 {
					t.Fatalf("%+v, %d patterns", th, len(patterns))
				}
				d, p := th.Kinds[0], th.Kinds[1]
				for _, k := range th.Kinds {
					if k.Kernels != 4+layers*12 || k.Part.Kernels != 12 || k.Part.Times != layers {
						t.Errorf("%+v", k)
					}
				}
				cut := int64(0) // without gaps nothing tells where a step begins
				if gapNS == 0 {
					cut = 1
				}
				if d.Steps > decodes || d.Steps < decodes-cut || p.Steps > prefills || p.Steps < prefills-cut {
					t.Errorf("%d and %d steps, want %d and %d", d.Steps, p.Steps, decodes, prefills)
				}
			})
		}
	}
}

// What is different in a step is named.
func TestDifferences(t *testing.T) {
	l := &llama{random: rand.New(rand.NewPCG(3, 1)), gapNS: 40_000}
	change := map[int]func([]graphs.Step) []graphs.Step{
		20: func(s []graphs.Step) []graphs.Step { return append(s[:77:77], s[78:]...) }, // missing
		30: func(s []graphs.Step) []graphs.Step {
			return append(s[:90:90], append([]graphs.Step{extra(s[90])}, s[90:]...)...)
		}, // additional
		40: func(s []graphs.Step) []graphs.Step { return later(s, 200, 3_000_000, false) }, // longer
		50: func(s []graphs.Step) []graphs.Step { return later(s, 300, 5_000_000, true) },  // idle
	}
	var all []graphs.Step
	var names [4]int64
	for i := range 80 {
		l.all = nil
		l.decode()
		switch i {
		case 20:
			names[0] = l.all[77].Name
		case 40:
			names[2] = l.all[200].Name
		case 50:
			names[3] = l.all[300].Name
		}
		if f := change[i]; f != nil {
			l.all = f(l.all)
			end := l.all[len(l.all)-1]
			l.freeNS = [2]int64{end.StartNS + end.DurationNS, end.StartNS + end.DurationNS}
			l.atNS = max(l.atNS, end.StartNS)
		}
		all = append(all, l.all...)
	}
	l.all = all
	th, _, found := l.found(t, nil)
	if !found || len(th.Kinds) != 1 || th.Steps != 80 {
		t.Fatalf("%+v", th)
	}
	k := th.Kinds[0]
	if k.Different != 2 || k.Slow != 2 {
		t.Errorf("%d different, %d slow", k.Different, k.Slow)
	}
	want := map[int64]Difference{21: {What: Missing, Name: names[0]}, 31: {What: Additional, Name: 999}, 41: {What: Longer, Name: names[2]}, 51: {What: Idle, Name: names[3]}}
	for _, o := range k.Outliers {
		w, expected := want[o.Number]
		if !expected {
			t.Errorf("%+v", o)
			continue
		}
		seen := false
		for _, d := range o.Differences {
			seen = seen || d.What == w.What && d.Name == w.Name
		}
		if !seen {
			t.Errorf("%+v, want %+v", o, w)
		}
		delete(want, o.Number)
	}
	if len(want) > 0 {
		t.Errorf("not there: %+v", want)
	}
}

func extra(like graphs.Step) graphs.Step {
	like.Name = 999
	return like
}

// later lets a kernel take longer, or start later, and moves what follows.
func later(s []graphs.Step, at int, ns int64, idle bool) []graphs.Step {
	if !idle {
		s[at].DurationNS += ns
		at++
	}
	for i := at; i < len(s); i++ {
		s[i].StartNS += ns
	}
	return s
}

// Grids that change do not matter; kernels in a random order have no steps, whatever the seed.
func TestRandomTraces(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 9))
		l := &llama{random: random}
		for range 20_000 {
			if random.IntN(40) == 0 {
				l.atNS += random.Int64N(200_000)
			}
			l.kernel(1+random.Int64N(1+int64(seed)*3), random.IntN(2), 1000+random.Int64N(9000))
		}
		if th, patterns, found := l.found(t, nil); found {
			t.Errorf("seed %d: %+v, %v", seed, th, patterns)
		}
	}
}

// A thread that submits requests of some equal parts waits for a processor now and then: the gaps between requests are
// found among others.
func TestNoisyGaps(t *testing.T) {
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 5))
		var s submits
		const requests = 120
		for range requests {
			for k := range int64(40) {
				gap := int64(0)
				if k == 0 {
					gap = 100_000 + random.Int64N(400_000)
				} else if random.IntN(25) == 0 {
					gap = 20_000 + random.Int64N(900_000)
				}
				s.add(gap, 1+k%8)
			}
		}
		th, patterns, found := s.found(t, nil)
		if !found || len(patterns[0]) != 40 || th.Steps != requests || th.Kinds[0].Part.Times != 5 {
			t.Errorf("seed %d: %+v, %v", seed, th, patterns)
		}
	}
}

// A thread waits for a processor once, in the middle of a request and for longer than all gaps between requests
// together: the steps are the requests all the same.
func TestOneLongWait(t *testing.T) {
	const requests, kernels = 60, 40
	for _, at := range []int{1, 17, kernels - 1} {
		var s submits
		for i := range requests {
			for k := range kernels {
				gap := int64(0)
				if k == 0 {
					gap = 500_000
				} else if i == 20 && k == at {
					gap = 2 * requests * 500_000
				}
				s.add(gap, int64(1+k%8))
			}
		}
		th, patterns, found := s.found(t, nil)
		if !found || len(patterns[0]) != kernels || patterns[0][0] != 1 || th.Steps != requests {
			t.Errorf("wait before kernel %d: %+v, %v", at, th, patterns)
		}
	}
}

// Every fourth request has a graph: the gaps say that a request is the step, and not four of them.
func TestGraphsAfterSomeRequests(t *testing.T) {
	for _, noise := range []int{0, 25} {
		random := rand.New(rand.NewPCG(1, 6))
		var s submits
		const requests = 120
		for i := range requests {
			n := int64(40)
			if i%4 == 0 {
				n += 16
			}
			for k := range n {
				gap, name := int64(0), 1+k%8
				if k >= 40 {
					name = 50 + k%3
				}
				if k == 0 {
					gap = 200_000
				} else if k == 40 {
					gap = 40_000 // the graph's launch
				} else if noise > 0 && random.IntN(noise) == 0 {
					gap = random.Int64N(900_000)
				}
				s.add(gap, name)
			}
		}
		th, patterns, found := s.found(t, nil)
		if !found || th.Steps != requests {
			t.Errorf("noise %d: %+v, %v", noise, th, patterns)
		}
	}
}
