package steps

import (
	"cmp"
	"slices"
)

// Outlier is a step that took much longer than most of its kind, or has other kernels.
type Outlier struct {
	Number      int64 // of the thread's steps, from 1 on
	StartNS     int64
	DurationNS  int64
	IdleNS      int64
	Differences []Difference // the largest first
}

// What can be different in a step.
const (
	Longer     = "longer"     // a kernel took longer
	Idle       = "idle"       // no kernel of the step ran for longer, most of it before the kernel
	Missing    = "missing"    // the kernel
	Additional = "additional" // the kernel
)

// Difference is a difference of a step from others of its kind.
type Difference struct {
	What    string
	Name    int64 // row of the kernel's name
	Kernels int64 // how many kernels of this name
	NS      int64 // how much longer the step took for it; of a missing kernel how long it usually takes
	UsualNS int64 // the mean of other steps
}

const (
	mostDifferences    = 4
	leastDifferencePct = 10 // of the time that the step took longer than usual
)

// outliers fills in the outliers: slow steps, then others that differ.
func (k *kind) outliers(slowNS int64) {
	u := k.usual()
	for _, h := range k.slow {
		if h.DurationNS > slowNS || h.edits != nil {
			h.Differences = u.differences(k, &h)
			k.Outliers = append(k.Outliers, h.Outlier)
		}
	}
	for _, h := range k.different {
		h.Differences = u.differences(k, &h)
		k.Outliers = append(k.Outliers, h.Outlier)
	}
	k.slow, k.different = nil, nil
}

// usual has the means of the steps that are not held, by place.
type usual struct {
	steps              int64
	durationNS, idleNS []int64
}

func (k *kind) usual() usual {
	u := usual{k.equal, slices.Clone(k.durationNS), slices.Clone(k.idleNS)}
	for _, h := range k.slow {
		if h.edits != nil || len(h.kernels) != len(k.pattern) || k.equal <= int64(2*len(k.slow)) {
			continue
		}
		u.steps--
		for i := range h.kernels {
			u.durationNS[i] -= h.kernels[i].endNS - h.kernels[i].startNS
			u.idleNS[i] -= h.idleNS[i]
		}
	}
	for i := range u.durationNS {
		u.durationNS[i] /= max(1, u.steps)
		u.idleNS[i] /= max(1, u.steps)
	}
	return u
}

// differences compares a step with the usual times.
func (u *usual) differences(k *kind, h *held) []Difference {
	if h.kernels == nil || u.steps == 0 {
		return nil
	}
	c := comparison{by: map[differenceKey]*Difference{}, idle: Difference{What: Idle}}
	i, j := 0, 0
	for _, e := range append(slices.Clone(h.edits), edit{pattern: len(k.pattern)}) {
		for ; i < e.pattern && j < len(h.kernels); i, j = i+1, j+1 {
			c.equal(h, j, u.durationNS[i], u.idleNS[i])
		}
		for ; i < e.pattern+e.missing && i < len(k.pattern); i++ {
			c.of(Missing, k.pattern[i]).NS += u.durationNS[i]
		}
		for ; j < e.at+e.addition && j < len(h.kernels); j++ {
			c.of(Additional, h.kernels[j].symbol).NS += h.kernels[j].endNS - h.kernels[j].startNS
			c.wait(h, j, 0)
		}
	}
	usualNS := int64(0)
	for i := range u.durationNS {
		usualNS += u.durationNS[i] + u.idleNS[i]
	}
	return c.largest(h.DurationNS - usualNS)
}

type differenceKey struct {
	what string
	name int64
}

// comparison adds up the differences of a step by the names of kernels.
type comparison struct {
	by      map[differenceKey]*Difference
	idle    Difference
	longest int64 // the longest time of idle that is not usual
	inOrder []*Difference
}

func (c *comparison) of(what string, symbol int64) *Difference {
	key := differenceKey{what, nameOf(symbol)}
	d := c.by[key]
	if d == nil {
		d = &Difference{What: what, Name: key.name}
		c.by[key] = d
		c.inOrder = append(c.inOrder, d)
	}
	d.Kernels++
	return d
}

func (c *comparison) equal(h *held, j int, usualNS, usualIdleNS int64) {
	d := c.of(Longer, h.kernels[j].symbol)
	d.NS += h.kernels[j].endNS - h.kernels[j].startNS - usualNS
	d.UsualNS += usualNS
	c.wait(h, j, usualIdleNS)
}

func (c *comparison) wait(h *held, j int, usualNS int64) {
	more := h.idleNS[j] - usualNS
	c.idle.NS += more
	c.idle.UsualNS += usualNS
	if more > c.longest {
		c.longest, c.idle.Name = more, nameOf(h.kernels[j].symbol)
	}
}

// largest returns all missing and additional kernels, and what explains a part of the time that a step took longer.
func (c *comparison) largest(longerNS int64) (all []Difference) {
	for _, d := range append(c.inOrder, &c.idle) {
		isTime := d.What == Longer || d.What == Idle
		if !isTime || d.NS > 0 && d.NS >= longerNS/100*leastDifferencePct {
			all = append(all, *d)
		}
	}
	slices.SortStableFunc(all, func(a, b Difference) int { return cmp.Compare(b.NS, a.NS) })
	return all[:min(len(all), mostDifferences)]
}
