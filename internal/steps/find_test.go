package steps

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/graphs"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// submits are kernels of a thread, as a test makes them.
type submits struct {
	all  []graphs.Step
	atNS int64
}

func (s *submits) add(gapNS int64, launches ...int64) {
	for i, l := range launches {
		if s.atNS += 1000; i == 0 {
			s.atNS += gapNS
		}
		s.all = append(s.all, graphs.Step{AtNS: s.atNS, StartNS: s.atNS + 5000, DurationNS: 800, Name: l, Launch: l})
	}
}

// found returns what is found in the submits, and the sequences.
func (s *submits) found(t testing.TB, visit func(Step) error) (*Thread, [][]int64, bool) {
	t.Helper()
	of := &search{window: traceread.Always, bounds: &bounds{}, visit: visit, threads: map[int64]*finder{}}
	f := newFinder(of, 1, 1)
	for i := range s.all {
		if f.given {
			break
		}
		must(t, f.add(&s.all[i]))
	}
	must(t, f.end())
	th, found := f.thread()
	if f.parser == nil {
		return th, nil, found
	}
	return th, f.parser.kinds.patterns(), found
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func sequence(n int, distinct, from int64) (all []int64) {
	for i := range int64(n) {
		all = append(all, from+i*7%distinct)
	}
	return all
}

// Steps are found with and without gaps between them, with other kernels between them, and beyond the sample.
func TestSteps(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		batch  []int64
		gapNS  int64
		others int // up to so many kernels of others between two steps
		n      int
	}{
		"different kernels":        {sequence(20, 20, 1), 0, 0, 100},
		"a few kernels, gaps":      {sequence(16, 3, 1), 50_000, 0, 100},
		"one kernel, gaps":         {sequence(8, 1, 1), 50_000, 0, 100},
		"others between":           {sequence(30, 30, 1), 20_000, 5, 200},
		"three":                    {sequence(40, 40, 1), 10_000, 0, 4},
		"much longer than samples": {sequence(100, 100, 1), 10_000, 0, 3000},
		"a prefix that repeats":    {[]int64{1, 1, 2, 1, 1, 3, 4}, 9000, 0, 500},
	} {
		t.Run(name, func(t *testing.T) {
			var s submits
			for range c.n {
				s.add(c.gapNS, c.batch...)
				for range random.IntN(c.others + 1) {
					s.add(0, 1000+random.Int64N(50))
				}
			}
			th, patterns, found := s.found(t, nil)
			if !found {
				t.Fatalf("%+v, %v, %v", th, patterns, found)
			}
			b, pattern := th.Kinds[0], patterns[0]
			if int(b.Kernels) != len(c.batch) || b.Steps < int64(c.n*3/4) || b.Steps > int64(c.n) {
				t.Fatalf("%+v, %v", b, patterns)
			}
			if c.gapNS > 0 && (!slices.Equal(pattern, c.batch) || b.First != c.batch[0]) {
				t.Errorf("%v, want %v", pattern, c.batch)
			}
			want := int64(len(c.batch)-1)*1000 + 800
			if c.gapNS > 0 && (b.P50NS < want*99/100 || b.P50NS > want*101/100) {
				t.Errorf("p50 %d, want %d", b.P50NS, want)
			}
			if gap := c.gapNS + 1000 - 800; c.gapNS > 0 && c.others == 0 && (b.GapP50NS < gap*99/100 || b.GapP50NS > gap*101/100) {
				t.Errorf("gap %d, want %d", b.GapP50NS, gap)
			}
		})
	}
}

// Kernels in a random order have no steps, whatever their number, and whatever the times between them.
func TestNoSteps(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	times := map[string]func() int64{
		"even":   func() int64 { return 0 },
		"random": func() int64 { return int64(random.ExpFloat64() * 20_000) },
		"bursts": func() int64 {
			if random.IntN(10) == 0 {
				return 100_000
			}
			return 0
		},
	}
	for name, gap := range times {
		for _, distinct := range []int64{1, 2, 3, 5, 10, 100, 5000} {
			for _, n := range []int{1, 3, 10, 50, 1000, 20_000} {
				var s submits
				for range n {
					s.add(gap(), 1+random.Int64N(distinct))
				}
				if b, pattern, found := s.found(t, nil); found {
					t.Errorf("%s, %d kernels of %d: %+v, %v", name, n, distinct, b, pattern)
				}
			}
		}
	}
}

// Two steps, or steps that are a small part of a thread's kernels, are not enough.
func TestTooLittleEvidence(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var two, few submits
	for range 2 {
		two.add(10_000, sequence(20, 20, 1)...)
	}
	for range 200 {
		few.add(10_000, sequence(10, 10, 1)...)
		for range 15 {
			few.add(0, 100+random.Int64N(1000))
		}
	}
	for name, s := range map[string]*submits{"two": &two, "few": &few} {
		if b, pattern, found := s.found(t, nil); found {
			t.Errorf("%s: %+v, %v", name, b, pattern)
		}
	}
}
