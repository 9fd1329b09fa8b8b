package ranks

import (
	"cmp"
	"fmt"
	"slices"
)

// mostRounds limits how many groups a kernel's name can be of on one rank: what a round leaves unmatched, the next one
// matches with other ranks.
const mostRounds = 4

// team is lanes whose kernels the leader's kernels were matched with.
type team struct {
	lanes []*lane  // the first one leads
	pairs [][]pair // of each further lane with the leader
	apart []int64  // ns between the ends of these, in the median
	bound [2]int64 // all lanes were recorded between these times
	group int32    // its index
}

// match groups the lanes with one name and communicator, and makes collectives of their kernels.
func (a *Analysis) match() {
	for i := range a.lanes {
		l := a.lanes[i]
		for n := range l.kernels {
			l.free = append(l.free, int32(n))
		}
	}
	byRanks := map[string]*Group{}
	for from := 0; from < len(a.lanes); {
		until := from + 1
		for until < len(a.lanes) && a.lanes[until].name == a.lanes[from].name && a.lanes[until].comm == a.lanes[from].comm {
			until++
		}
		a.matchLanes(a.lanes[from:until], byRanks)
		from = until
	}
	for _, l := range a.lanes {
		l.free = nil
	}
	a.finish()
}

func (a *Analysis) matchLanes(lanes []*lane, byRanks map[string]*Group) {
	var all []*team
	for range mostRounds {
		teams := a.teams(lanes)
		for _, t := range teams {
			if whole := t.partOf(all); whole != nil {
				t.group = whole.group // one of its ranks lacks these kernels
			} else {
				t.group = a.group(t, byRanks)
				all = append(all, t)
			}
			a.settle(t)
		}
		if len(teams) == 0 {
			break
		}
		for _, l := range lanes {
			l.free = slices.DeleteFunc(l.free, func(i int32) bool { return i < 0 })
		}
	}
	counted := map[*lane]bool{}
	for _, t := range all {
		a.diverge(t, counted)
	}
}

// partOf returns the team that has all lanes of t and further ones; nil: there is none.
func (t *team) partOf(all []*team) *team {
	for _, other := range all {
		has := func(l *lane) bool { return slices.Contains(other.lanes, l) }
		if len(other.lanes) > len(t.lanes) && !slices.ContainsFunc(t.lanes, func(l *lane) bool { return !has(l) }) {
			return other
		}
	}
	return nil
}

// newTeam matches lanes with the one that has most kernels.
func newTeam(members []*lane) *team {
	members = slices.DeleteFunc(slices.Clone(members), func(l *lane) bool { return len(l.free) == 0 })
	if len(members) == 0 {
		return &team{}
	}
	leader := slices.MaxFunc(members, func(x, y *lane) int { return cmp.Compare(len(x.free), len(y.free)) })
	t := &team{lanes: []*lane{leader}}
	for _, l := range members {
		if l == leader {
			continue
		}
		p := pairing{a: leader, b: l}
		if medianNS, together := p.together(); together {
			t.lanes, t.pairs, t.apart = append(t.lanes, l), append(t.pairs, p.pairs), append(t.apart, medianNS)
		}
	}
	return t
}

// setBound finds the time in which all lanes have kernels: before and after it a rank lacks some because it was not recorded.
func (t *team) setBound() {
	t.bound = [2]int64{0, 1<<63 - 1}
	for _, l := range t.lanes {
		t.bound[0] = max(t.bound[0], l.kernels[l.free[0]].EndNS)
		t.bound[1] = min(t.bound[1], l.kernels[l.free[len(l.free)-1]].StartNS)
	}
}

// group returns the group of a team's ranks.
func (a *Analysis) group(t *team, byRanks map[string]*Group) int32 {
	var ranks []int
	for _, l := range t.lanes {
		ranks = append(ranks, l.rank)
	}
	slices.Sort(ranks)
	by := ByTimes
	if t.lanes[0].isExact() {
		by = ByCommunicator
	}
	key := fmt.Sprint(by, t.lanes[0].comm, ranks)
	g := byRanks[key]
	if g == nil {
		g = &Group{Ranks: ranks, MatchedBy: by}
		byRanks[key] = g
		a.Groups = append(a.Groups, g)
	}
	return int32(slices.Index(a.Groups, g))
}

// settle makes collectives of a team's pairs. Kernels in pairs are no longer free.
func (a *Analysis) settle(t *team) {
	leader := t.lanes[0]
	of := make([]int32, len(leader.free)) // the collective of each of the leader's free kernels, from 1 on
	first := len(a.Collectives)
	for n, pairs := range t.pairs {
		l := t.lanes[n+1]
		for _, p := range pairs {
			if of[p.a] == 0 {
				a.Collectives = append(a.Collectives, Collective{Name: leader.name, Group: t.group})
				of[p.a] = int32(len(a.Collectives))
				a.enter(leader, p.a, of[p.a]-1)
			}
			a.enter(l, p.b, of[p.a]-1)
		}
	}
	g := a.Groups[t.group]
	for i := first; i < len(a.Collectives); i++ {
		c := &a.Collectives[i]
		if c.Whole = int(c.Kernels) == len(g.Ranks); c.Whole {
			g.Matched++
		} else {
			g.Partly++
		}
	}
	for _, l := range t.lanes {
		for i, k := range l.free {
			if l.kernels[k].Collective >= 0 {
				l.free[i] = -1
			}
		}
	}
}

// enter adds a kernel to a collective.
func (a *Analysis) enter(l *lane, free, collective int32) {
	k := &l.kernels[l.free[free]]
	c := &a.Collectives[collective]
	k.Collective = collective
	if c.Kernels++; c.Kernels == 1 {
		c.baseNS, c.FirstNS, c.PrevNS, c.LastNS, c.LeastNS, c.EndNS, c.Last = k.StartNS, k.StartNS, k.StartNS, k.StartNS, k.EndNS, k.EndNS, int32(l.rank)
		return
	}
	c.SumNS += k.StartNS - c.baseNS
	c.FirstNS, c.LeastNS, c.EndNS = min(c.FirstNS, k.StartNS), min(c.LeastNS, k.EndNS), max(c.EndNS, k.EndNS)
	switch {
	case k.StartNS > c.LastNS:
		c.PrevNS, c.LastNS, c.Last = c.LastNS, k.StartNS, int32(l.rank)
	case c.Kernels == 2 || k.StartNS > c.PrevNS:
		c.PrevNS = k.StartNS
	}
}

// diverge counts the kernels that are in no collective of all ranks, while all were recorded, and keeps the first one. A lane's
// kernels count for its first team.
func (a *Analysis) diverge(t *team, counted map[*lane]bool) {
	g := a.Groups[t.group]
	var first *Kernel
	var of *lane
	for _, l := range t.lanes {
		if counted[l] {
			continue
		}
		counted[l] = true
		for i := range l.kernels {
			k := &l.kernels[i]
			if k.Collective == ambiguous || k.Collective >= 0 && a.Collectives[k.Collective].Whole || k.EndNS <= t.bound[0] || k.StartNS >= t.bound[1] {
				continue
			}
			g.Unmatched++
			if first == nil || k.StartNS < first.StartNS {
				first, of = k, l
			}
		}
	}
	if first != nil && (g.Diverges == nil || first.StartNS < g.Diverges.AtNS) {
		g.Diverges = &Divergence{AtNS: first.StartNS, Name: of.name, Has: of.rank, Missing: t.missing(first, of)}
	}
}

// missing returns the ranks of a team that are not in the collective of a kernel of one lane.
func (t *team) missing(k *Kernel, of *lane) (ranks []int) {
	for _, l := range t.lanes {
		has := l == of || k.Collective >= 0 && slices.ContainsFunc(l.kernels, func(other Kernel) bool { return other.Collective == k.Collective })
		if !has {
			ranks = append(ranks, l.rank)
		}
	}
	slices.Sort(ranks)
	return ranks
}

// finish finds how far the clocks contradict each other: no rank can end a collective before the last one has entered.
func (a *Analysis) finish() {
	for i := range a.Collectives {
		if c := &a.Collectives[i]; c.Whole {
			a.ClockNS = max(a.ClockNS, c.LastNS-c.LeastNS)
		}
	}
}
