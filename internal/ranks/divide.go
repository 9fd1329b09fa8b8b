package ranks

import "slices"

// leastLanes is of how many ranks two groups are at least.
const leastLanes = 4

// teams forms teams of several lanes.
func (a *Analysis) teams(lanes []*lane) (teams []*team) {
	lanes = slices.DeleteFunc(slices.Clone(lanes), func(l *lane) bool { return len(l.free) == 0 || !l.isExact() && len(l.free) < leastPairs })
	for _, members := range a.clusters(lanes) {
		teams = append(teams, a.divide(members)...)
	}
	if len(lanes) > 0 && !lanes[0].isExact() {
		teams = a.separate(teams)
	}
	for _, t := range teams {
		t.setBound()
	}
	return teams
}

// separate leaves out what several teams do together.
func (a *Analysis) separate(teams []*team) (separate []*team) {
	shared := map[*team]bool{}
	for i, t := range teams {
		for _, other := range teams[i+1:] {
			if a.leaveOutShared(t, other) {
				shared[t], shared[other] = true, true
			}
		}
	}
	for _, t := range teams {
		if shared[t] {
			for _, l := range t.lanes {
				l.dropAmbiguous()
			}
			if t = newTeam(t.lanes); len(t.lanes) < 2 {
				continue
			}
		}
		separate = append(separate, t)
	}
	return separate
}

// divide returns the teams of lanes that end their collectives together. Kernels that may be of several groups are in no
// collective, and counted.
func (a *Analysis) divide(members []*lane) (teams []*team) {
	groups := [][]*lane{members}
	if len(members) > 2 && !members[0].isExact() {
		groups = a.blockLanes(members)
	}
	for _, lanes := range groups {
		if t := a.withoutAmbiguous(a.withoutFar(newTeam(lanes))); len(t.lanes) > 1 {
			teams = append(teams, t)
		}
	}
	return teams
}

// blockLanes divides lanes by their first kernels from where all have some.
func (a *Analysis) blockLanes(members []*lane) (groups [][]*lane) {
	var sampled []*lane
	of := map[*lane]*lane{}
	latest := members[0]
	for _, l := range members {
		if l.kernels[l.free[0]].EndNS > latest.kernels[latest.free[0]].EndNS {
			latest = l
		}
	}
	for _, l := range members {
		some := l.sample(latest)
		if len(some.free) == 0 {
			continue // it was over when another one began
		}
		of[some] = l
		sampled = append(sampled, some)
	}
	for _, b := range blocks(sampled) {
		var lanes []*lane
		for _, l := range b.lanes {
			lanes = append(lanes, of[l])
		}
		groups = append(groups, lanes)
	}
	return groups
}

// leaveOutShared leaves out what two teams do together, and not each for itself, as collectives of all ranks are that have the
// name of those of each group. What else ends with these is not told from them.
func (a *Analysis) leaveOutShared(x, y *team) (any bool) {
	b, c := x.block(), y.block()
	if e := compareBlocks(b, c); !e.isProven() {
		return false
	}
	a.leaveOutNear(b, c)
	a.leaveOutNear(c, b)
	return true
}

// leaveOutNear leaves out what a block does when a kernel of the other one ends, too.
func (a *Analysis) leaveOutNear(b, other *block) {
	for _, j := range b.joints {
		if other.endsNear(j.endNS, nearNS(b, other)) {
			a.leaveOut(j)
		}
	}
}

func (a *Analysis) leaveOut(j *joint) {
	for _, k := range j.kernels {
		if k.Collective != ambiguous {
			k.Collective = ambiguous
			a.Ambiguous++
		}
	}
}

// dropAmbiguous removes the kernels that are left out from those that are free.
func (l *lane) dropAmbiguous() {
	l.free = slices.DeleteFunc(l.free, func(i int32) bool { return l.kernels[i].Collective == ambiguous })
}

// without leaves out some joints of a team, and returns the team of what is left.
func (a *Analysis) without(t *team, joints []*joint, isLeftOut func(*joint) bool) *team {
	before := a.Ambiguous
	for _, j := range joints {
		if isLeftOut(j) {
			a.leaveOut(j)
		}
	}
	if a.Ambiguous == before {
		return t
	}
	for _, l := range t.lanes {
		l.dropAmbiguous()
	}
	return newTeam(t.lanes)
}

// withoutFar leaves out joints whose ends are too far apart, as some of their kernels are of other collectives.
func (a *Analysis) withoutFar(t *team) *team {
	if len(t.lanes) < 2 || t.lanes[0].isExact() {
		return t
	}
	b := t.block()
	return a.without(t, b.joints, func(j *joint) bool { return j.endNS-j.leastNS > nearNS(b, b) })
}

// withoutAmbiguous leaves out what may be of several groups in step: ranks wait, but never all of them for the same one. Where none
// waits, the ranks count as one group, unless that is the smaller part.
func (a *Analysis) withoutAmbiguous(t *team) *team {
	if len(t.lanes) < leastLanes || t.lanes[0].isExact() {
		return t
	}
	joints := t.joints()
	skewed, proven := 0, 0
	for _, j := range joints {
		if j.isSkewed() {
			skewed++
		}
		if j.isProven() {
			proven++
		}
	}
	if skewed < leastSkewed || proven >= max(leastProofs, skewed/provenShare) {
		return t
	}
	mostly := skewed*2 > len(joints)
	return a.without(t, joints, func(j *joint) bool { return mostly || j.lastNS-j.firstNS > ClockNS })
}
