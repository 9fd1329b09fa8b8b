package ranks

// joint is what ranks of one block do together: their kernels of one collective.
type joint struct {
	firstNS, prevNS, lastNS int64 // the first rank's entry, that of the last one but one, and the last one's
	leastNS, endNS          int64 // the first rank's end, and the last one's
	whole                   bool  // all ranks of the block are in it
	kernels                 []*Kernel
}

// enter adds a kernel.
func (j *joint) enter(k *Kernel) {
	if j.kernels = append(j.kernels, k); len(j.kernels) == 1 {
		j.firstNS, j.prevNS, j.lastNS, j.leastNS, j.endNS = k.StartNS, k.StartNS, k.StartNS, k.EndNS, k.EndNS
		return
	}
	switch {
	case k.StartNS > j.lastNS:
		j.prevNS, j.lastNS = j.lastNS, k.StartNS
	case len(j.kernels) == 2 || k.StartNS > j.prevNS:
		j.prevNS = k.StartNS
	}
	j.firstNS, j.leastNS, j.endNS = min(j.firstNS, k.StartNS), min(j.leastNS, k.EndNS), max(j.endNS, k.EndNS)
}

// isSkewed reports whether a rank waited for another one, by more than the times of both are known.
func (j *joint) isSkewed() bool {
	return j.whole && j.lastNS-j.firstNS > j.endNS-j.leastNS+ClockNS
}

// isProven reports whether all ranks waited for a single one: then they are of one collective, however many groups end
// their collectives at this time.
func (j *joint) isProven() bool {
	return j.whole && j.lastNS-j.prevNS > j.endNS-j.leastNS+ClockNS
}

// joints returns what a team does together, in the order of the leader's kernels.
func (t *team) joints() (all []*joint) {
	of := make([]*joint, len(t.lanes[0].free))
	for n, pairs := range t.pairs {
		for _, p := range pairs {
			if of[p.a] == nil {
				of[p.a] = &joint{}
				of[p.a].enter(&t.lanes[0].kernels[t.lanes[0].free[p.a]])
			}
			of[p.a].enter(&t.lanes[n+1].kernels[t.lanes[n+1].free[p.b]])
		}
	}
	for _, j := range of {
		if j != nil {
			j.whole = len(j.kernels) == len(t.lanes)
			all = append(all, j)
		}
	}
	return all
}

// alone returns the free kernels of a lane as joints of one rank.
func (l *lane) alone() (all []*joint) {
	for _, i := range l.free {
		j := &joint{whole: true}
		j.enter(&l.kernels[i])
		all = append(all, j)
	}
	return all
}

// asLane returns joints as kernels that start when the last rank enters.
func asLane(joints []*joint) *lane {
	l := &lane{}
	for i, j := range joints {
		l.kernels = append(l.kernels, Kernel{j.lastNS, j.endNS, -1})
		l.free = append(l.free, int32(i))
	}
	return l
}
