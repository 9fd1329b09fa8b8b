package ranks

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// usages passes a scene's kernels to the usage of each GPU.
func usages(s *scene, a *Analysis, declared traceread.Span, copies []traceread.Span) map[int64]*Usage {
	all := map[int64]*Usage{}
	for gpu := range int64(s.ranks) {
		u := a.Usage(gpu, []traceread.Span{declared}, copies)
		kernels := slices.DeleteFunc(slices.Clone(s.kernels), func(k dispatched) bool { return int64(k.rank) != gpu })
		slices.SortStableFunc(kernels, func(x, y dispatched) int { return cmp.Compare(x.startNS, y.startNS) })
		for i, k := range kernels {
			u.Kernel(k.startNS, k.endNS, int32(i), k.number >= 0)
		}
		u.Finish()
		all[gpu] = u
	}
	return all
}

func (s *scene) span() traceread.Span {
	all := traceread.Span{BeginNS: begin, EndNS: begin}
	for _, k := range s.kernels {
		all.EndNS = max(all.EndNS, k.endNS)
	}
	return all
}

// verdict judges without kernels' names.
func verdict(t *testing.T, a *Analysis) Server {
	t.Helper()
	usage := map[int64]*Usage{}
	for _, r := range a.Ranks {
		u := a.Usage(r.GPU, []traceread.Span{{BeginNS: begin, EndNS: begin + 100_000_000_000}}, nil)
		u.Finish()
		usage[r.GPU] = u
	}
	_, untilNS := a.bounds()
	result, err := a.Result(usage, Naming{
		Kernel:   func(row int64) (string, error) { return fmt.Sprint("kernel ", row), nil },
		Number:   func(number int32) (string, error) { return fmt.Sprint("number ", number), nil },
		Recorded: func(int64) int64 { return untilNS - begin }, RecordedBy: func(*Rank) int64 { return untilNS - begin },
	})
	must(t, err)
	if len(result.Servers) != 1 {
		t.Fatalf("%+v", result.Servers)
	}
	t.Log(result.Servers[0].Verdict)
	return result.Servers[0]
}

// bounds returns the first start and the last end of all kernels.
func (a *Analysis) bounds() (fromNS, untilNS int64) {
	fromNS = traceread.LatestNS
	for _, l := range a.lanes {
		for _, k := range l.kernels {
			fromNS, untilNS = min(fromNS, k.StartNS), max(untilNS, k.EndNS)
		}
	}
	return fromNS, untilNS
}

// The uses of each GPU's time are what looking at each time between two borders says.
func TestUsage(t *testing.T) {
	for seed := range uint64(8) {
		r := random(seed)
		s := newScene(3)
		for i := range 60 {
			for rank := range 3 {
				s.compute(rank, gemm, 5000+r.Int64N(30_000))
			}
			if i%5 == 0 {
				s.collective(allGather, 5000, 1)
			}
			ranks := []int{0, 1, 2}
			s.collective(allReduce, 8000+r.Int64N(4000), ranks...)
		}
		for range 40 { // beside them, on another queue
			at := begin + r.Int64N(s.span().EndNS-begin)
			s.kernels = append(s.kernels, dispatched{r.IntN(3), 0, gemm, at, at + r.Int64N(20_000), -1})
		}
		a := s.find(t, false)
		s.compare(t, a, 60)
		declared := traceread.Span{BeginNS: begin + 100_000, EndNS: s.span().EndNS - 200_000}
		copies := []traceread.Span{{BeginNS: begin + 50_000, EndNS: begin + 400_000}, {BeginNS: begin + 500_000, EndNS: begin + 900_000}}
		for gpu, u := range usages(s, a, declared, copies) {
			if want := s.brute(a, gpu, declared, copies); u.NS != want {
				t.Errorf("seed %d GPU %d: %v, want %v", seed, gpu, u.NS, want)
			}
		}
	}
}

// brute looks at each time between two borders.
func (s *scene) brute(a *Analysis, gpu int64, declared traceread.Span, copies []traceread.Span) (ns [Uses]int64) {
	truths := s.truths()
	marks := []int64{declared.BeginNS, declared.EndNS}
	for _, k := range s.kernels {
		marks = append(marks, k.startNS, k.endNS)
		if k.number >= 0 {
			marks = append(marks, truths[k.number].lastNS)
		}
	}
	for _, c := range copies {
		marks = append(marks, c.BeginNS, c.EndNS)
	}
	slices.Sort(marks)
	for i := 1; i < len(marks); i++ {
		from, until := marks[i-1], marks[i]
		if from < declared.BeginNS || until > declared.EndNS || from == until {
			continue
		}
		use := Uses
		for _, k := range s.kernels {
			if int64(k.rank) != gpu || k.startNS > from || k.endNS < until {
				continue
			}
			of := Compute
			if k.number >= 0 {
				one := truths[k.number]
				switch {
				case one.ranks == 1:
					of = Unmatched
				case one.skewNS <= a.ClockNS || from >= one.lastNS:
					of = Transfer
				default:
					of = Wait
				}
			}
			use = min(use, of)
		}
		for _, c := range copies {
			if use == Uses && c.BeginNS <= from && until <= c.EndNS {
				use = Copy
			}
		}
		if use < Uses {
			ns[use] += until - from
		}
	}
	return ns
}

// What a late rank's GPU did while the others waited is its kernel and its idle time.
func TestInstead(t *testing.T) {
	s := newScene(4)
	for range 50 {
		for rank := range 4 {
			s.compute(rank, gemm, 20_000)
		}
		s.compute(2, "topk", 100_000)
		s.at[2] += 30_000
		s.collective(allReduce, 10_000, 0, 1, 2, 3)
	}
	a := s.find(t, false)
	u := usages(s, a, s.span(), nil)[2]
	// From when all others have entered: topk, 1 us, 30 us. Behind the first collective rank 3 is 100 ns behind the others.
	const late, computing = 50*131_000 - 49*100, 50*100_000 - 49*100
	if u.LateNS != late {
		t.Errorf("late %d ns", u.LateNS)
	}
	sum := int64(0)
	for _, ns := range u.Instead {
		sum += ns
	}
	if sum != computing {
		t.Errorf("%v", u.Instead)
	}
	u = a.Usage(2, []traceread.Span{s.span()}, nil)
	spans := int64(0)
	u.Idle(s.span(), func(one traceread.Span) {
		spans += one.EndNS - one.BeginNS
	})
	if spans != late {
		t.Errorf("%d", spans)
	}
}

// The share of the others' time is that of the rank's own process: a GPU may have been recorded for others, too.
func TestOthersTimeIsOfTheirProcess(t *testing.T) {
	a := &Analysis{Ranks: []*Rank{{GPU: 0}, {GPU: 1}, {GPU: 0}, {GPU: 1}}, Groups: []*Group{{Ranks: []int{0, 1}}, {Ranks: []int{2, 3}}}}
	usage := map[int64]*Usage{0: {}, 1: {WaitedFor: map[int32]int64{0: 50, 2: 10}}}
	recorded := func(r *Rank) int64 {
		if r == a.Ranks[1] {
			return 100
		}
		return 40
	}
	for rank, want := range map[int]float64{0: 50, 2: 25} {
		if got := a.othersWait(rank, usage, recorded); got != want {
			t.Errorf("rank %d: %.1f%%, want %.1f%%", rank, got, want)
		}
	}
}

// Kernels of collectives that are in no lane count as unmatched, the others once.
func TestBeyondLimits(t *testing.T) {
	a := &Analysis{Ranks: []*Rank{{GPU: 0}}, lanes: []*lane{{kernels: []Kernel{{10, 30, -1}, {10, 20, -1}, {60, 70, -1}}}}}
	u := a.Usage(0, []traceread.Span{{BeginNS: 0, EndNS: 100}}, nil)
	for _, k := range []Kernel{{10, 20, 0}, {10, 30, 0}, {40, 45, 0}, {60, 70, 0}, {60, 71, 0}} {
		u.Kernel(k.StartNS, k.EndNS, 0, true)
	}
	u.Finish()
	if want := [Uses]int64{Unmatched: 20 + 5 + 11}; u.NS != want || len(u.entered) != 0 {
		t.Errorf("%v, want %v", u.NS, want)
	}
}

// Beyond the most ranks, kernels of collectives are counted, and in no lane.
func TestTooManyRanks(t *testing.T) {
	s := newScene(mostRanks + 1)
	all := make([]int, s.ranks)
	for i := range all {
		all[i] = i
	}
	s.collective(allReduce, 10_000, all...)
	if a := s.find(t, false); a.Beyond != 1 || len(a.Ranks) != mostRanks {
		t.Errorf("%d beyond the limits, %d ranks", a.Beyond, len(a.Ranks))
	}
}

// What threads did is said of each, and other causes of idle time are no thread's.
func TestInsteadOfThreads(t *testing.T) {
	one, two := Thread{PID: 7, TID: 8, Name: "worker"}, Thread{PID: 7, TID: 9}
	u := &Usage{LateNS: 1000, IdleLate: map[IdleCause]int64{{one, "slept"}: 500, {two, "slept"}: 300, {Thread{}, "launch latency"}: 200}}
	all, err := u.instead(Naming{})
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, want := range []*Thread{&one, &two, nil} {
		if got := all[i].Thread; (got == nil) != (want == nil) || got != nil && *got != *want || all[i].What != "idle" {
			t.Errorf("%+v is of %+v, want %+v", all[i], got, want)
		}
	}
}
