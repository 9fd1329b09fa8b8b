package ranks

import (
	"cmp"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// sumKey identifies a sum of collectives.
type sumKey struct {
	group int32
	name  int64
}

// summing is a sum in progress.
type summing struct {
	sum   Sum
	skews []int64
	last  map[int32]int64 // how often each rank was
	late  map[int32]int64 // how long the others waited for it, on average, summed up
}

func (a *Analysis) addGroups(r *Result, names Naming) error {
	sums := map[sumKey]*summing{}
	for i := range a.Collectives {
		if c := &a.Collectives[i]; c.Whole {
			key := sumKey{c.Group, c.Name}
			if sums[key] == nil {
				sums[key] = &summing{last: map[int32]int64{}, late: map[int32]int64{}}
			}
			sums[key].add(a, c)
		}
	}
	for _, l := range a.lanes {
		for i := range l.kernels {
			if k := &l.kernels[i]; k.Collective >= 0 && a.Collectives[k.Collective].Whole {
				wait, transfer := a.parts(k)
				s := &sums[sumKey{a.Collectives[k.Collective].Group, l.name}].sum
				s.WaitNS = traceread.Sum(s.WaitNS, wait.EndNS-wait.BeginNS)
				s.TransferNS = traceread.Sum(s.TransferNS, transfer.EndNS-transfer.BeginNS)
			}
		}
	}
	for _, g := range a.Groups {
		one := GroupResult{Ranks: g.Ranks, MatchedBy: g.MatchedBy, Matched: g.Matched, Partly: g.Partly, Unmatched: g.Unmatched, Sums: []Sum{}}
		if d := g.Diverges; d != nil {
			name, err := names.Kernel(d.Name)
			if err != nil {
				return err
			}
			one.Diverges = &Diverges{AtNS: d.AtNS, Kernel: name, Has: d.Has, Missing: append([]int{}, d.Missing...)}
		}
		r.Groups = append(r.Groups, one)
	}
	for key, s := range sums {
		name, err := names.Kernel(key.name)
		if err != nil {
			return err
		}
		r.Groups[key.group].Sums = append(r.Groups[key.group].Sums, s.result(name))
	}
	for _, g := range r.Groups {
		slices.SortFunc(g.Sums, func(x, y Sum) int { return cmp.Or(cmp.Compare(y.WaitNS, x.WaitNS), cmp.Compare(x.Kernel, y.Kernel)) })
	}
	return nil
}

func (s *summing) add(a *Analysis, c *Collective) {
	s.sum.Collectives++
	s.skews = append(s.skews, c.SkewNS())
	if a.Called(c) {
		s.last[c.Last]++
		s.late[c.Last] = traceread.Sum(s.late[c.Last], c.LateNS())
	}
}

func (s *summing) result(name string) Sum {
	slices.Sort(s.skews)
	one := s.sum
	one.Kernel = name
	one.SkewP50NS, one.SkewP99NS, one.SkewMaxNS = quantile(s.skews, 500), quantile(s.skews, 990), quantile(s.skews, 1000)
	one.Last, one.lastBy, one.lateBy = -1, s.last, s.late
	for rank, n := range s.last {
		if n > one.LastTimes || n == one.LastTimes && int(rank) < one.Last {
			one.Last, one.LastTimes = int(rank), n
		}
	}
	return one
}
