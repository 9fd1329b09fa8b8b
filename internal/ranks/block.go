package ranks

import (
	"cmp"
	"slices"
	"sort"
)

// What the collectives of two blocks of ranks say of whether the blocks are one group.
const (
	leastProofs     = 3   // collectives that one block entered later, and in which the other one waited for it
	proofShare      = 50  // and at least one in so many
	leastAgainst    = 3   // times at which both blocks do collectives without the other one, between two that end together
	againstShare    = 20  // and at least one for so many that end together
	leastAlone      = 8   // collectives of one block only
	aloneShare      = 10  // and at least one for so many that end together
	leastSkewed     = 8   // collectives in which a rank waits, so that it should be seen to wait for the other block, too
	proofsOverMatch = 4   // so many proofs outweigh a time against
	provenShare     = 200 // of the collectives of a group in which a rank waits, one in so many has a single last rank, and at least leastProofs
)

// block is lanes that are of one group.
type block struct {
	lanes  []*lane
	joints []*joint
	apart  int64 // ns between the ends of its lanes, in the median
	with   map[*block]*evidence
}

// newBlock returns the block of some lanes, as far as their sampled kernels go.
func newBlock(lanes []*lane) *block {
	if len(lanes) == 1 {
		return &block{lanes: lanes, with: map[*block]*evidence{}, joints: lanes[0].alone()}
	}
	b := newTeam(lanes).block()
	b.lanes = lanes
	return b
}

// block returns the block of a team's lanes.
func (t *team) block() *block {
	b := &block{lanes: t.lanes, with: map[*block]*evidence{}, joints: t.joints()}
	for _, medianNS := range t.apart {
		b.apart = max(b.apart, medianNS)
	}
	return b
}

// evidence compares two blocks.
type evidence struct {
	together       int // collectives of both that end together
	proofs         int // of these, one block waits for the other
	skewed         int // of these, a rank waits for another one
	against        int // between two of these, both have further ones
	aloneA, aloneB int
	relation       relation
}

// nearNS is how far the ends of one collective are apart at most.
func nearNS(a, b *block) int64 { return max(ClockNS, similarEnds*max(a.apart, b.apart)) }

// compareBlocks compares what two blocks did at the same time.
func compareBlocks(a, b *block) *evidence {
	e := &evidence{}
	p := pairing{a: asLane(a.joints), b: asLane(b.joints)}
	p.find()
	most := nearNS(a, b)
	last := pair{-1, -1}
	for n, one := range p.pairs {
		if p.apart[n] > most {
			continue
		}
		x, y := a.joints[one.a], b.joints[one.b]
		if e.together++; e.together > 1 {
			onlyA, onlyB := b.without(a.joints[last.a+1:one.a], most), a.without(b.joints[last.b+1:one.b], most)
			e.aloneA, e.aloneB = e.aloneA+onlyA, e.aloneB+onlyB
			if onlyA > 0 && onlyB > 0 {
				e.against++
			}
		}
		last = one
		if d := x.lastNS - y.lastNS; x.whole && y.whole && max(d, -d) > max(x.endNS, y.endNS)-min(x.leastNS, y.leastNS)+ClockNS {
			e.proofs++
			e.skewed++
		} else if x.isSkewed() || y.isSkewed() {
			e.skewed++
		}
	}
	e.relation = e.conclude(a, b)
	return e
}

// without returns how many joints of another block end where no kernel of this one does. Where it has some, it takes part, and
// lost the others.
func (b *block) without(joints []*joint, nearNS int64) (n int) {
	for _, j := range joints {
		if !b.endsNear(j.endNS, nearNS) {
			n++
		}
	}
	return n
}

// endsNear reports whether a free kernel of one of its lanes ends near a time.
func (b *block) endsNear(ns, nearNS int64) bool {
	return slices.ContainsFunc(b.lanes, func(l *lane) bool {
		at := sort.Search(len(l.free), func(i int) bool { return l.kernels[l.free[i]].EndNS >= ns-nearNS })
		return at < len(l.free) && l.kernels[l.free[at]].EndNS <= ns+nearNS
	})
}

// relation is whether two blocks are one group.
type relation int

const (
	apart  relation = iota // they are not
	joined                 // they are, or nothing says that they are not
)

// isProven reports whether one block waited for the other one.
func (e *evidence) isProven() bool { return e.proofs >= max(leastProofs, e.together/proofShare) }

func (e *evidence) conclude(a, b *block) relation {
	if e.together < min(leastPairs, len(a.joints), len(b.joints)) {
		return apart
	}
	against := e.against >= max(leastAgainst, e.together/againstShare)
	switch {
	case against && !(e.isProven() && e.proofs >= proofsOverMatch*e.against):
		return apart
	case e.isProven():
		return joined
	}
	alone := 0
	if len(a.lanes) > 1 {
		alone = e.aloneA
	}
	if len(b.lanes) > 1 {
		alone = max(alone, e.aloneB)
	}
	// The ranks of one block wait, but neither block ever for the other one.
	if e.skewed >= leastSkewed && alone >= max(leastAlone, e.together/aloneShare) {
		return apart
	}
	return joined
}

// blocks divides lanes that end their collectives together into those of one group each. It begins with the pairs that
// end together most exactly, and joins blocks as long as they take part in the same collectives.
func blocks(members []*lane) (blocks []*block) {
	blocks = firstBlocks(members)
	for {
		var x, y *block
		var best *evidence
		for i, b := range blocks {
			for _, c := range blocks[i+1:] {
				if b.with[c] == nil {
					b.with[c] = compareBlocks(b, c)
				}
				if e := b.with[c]; e.relation == joined && (best == nil || e.closer(best)) {
					x, y, best = b, c, e
				}
			}
		}
		if best == nil {
			return blocks
		}
		blocks = slices.DeleteFunc(blocks, func(b *block) bool { return b == x || b == y })
		blocks = append(blocks, newBlock(slices.Concat(x.lanes, y.lanes)))
	}
}

// closer reports whether two blocks agree better than two others.
func (e *evidence) closer(other *evidence) bool {
	if d := cmp.Compare(e.against*(other.together+other.against), other.against*(e.together+e.against)); d != 0 {
		return d < 0
	}
	return e.proofs*other.together > other.proofs*e.together
}

// How well two lanes fit: the nearer their ends, and the fewer kernels both have that do not end together, the better.
const (
	sameEndNS     = 1000 // closer ends are as good
	againstWeight = 20
)

// firstBlocks returns blocks of the two lanes that fit best, and what is left.
func firstBlocks(members []*lane) (blocks []*block) {
	type couple struct {
		x, y  int
		worse float64
	}
	var couples []couple
	for x := range members {
		for y := x + 1; y < len(members); y++ {
			p := pairing{a: members[x], b: members[y]}
			if medianNS, together := p.together(); together {
				against := float64(p.against()) / float64(len(p.pairs))
				couples = append(couples, couple{x, y, float64(max(medianNS, sameEndNS)) * (1 + againstWeight*against)})
			}
		}
	}
	slices.SortStableFunc(couples, func(a, b couple) int { return cmp.Compare(a.worse, b.worse) })
	used := make([]bool, len(members))
	for _, c := range couples {
		if !used[c.x] && !used[c.y] {
			used[c.x], used[c.y] = true, true
			blocks = append(blocks, newBlock([]*lane{members[c.x], members[c.y]}))
		}
	}
	for i, l := range members {
		if !used[i] {
			blocks = append(blocks, newBlock([]*lane{l}))
		}
	}
	return blocks
}

// against returns how often both lanes have kernels without a partner between two pairs.
func (p *pairing) against() (n int) {
	for i := 1; i < len(p.pairs); i++ {
		if p.pairs[i].a > p.pairs[i-1].a+1 && p.pairs[i].b > p.pairs[i-1].b+1 {
			n++
		}
	}
	return n
}
