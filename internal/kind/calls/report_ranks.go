package calls

import (
	"cmp"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// commKey is an ncclComm_t in use.
type commKey struct {
	session int64
	handle  uint64
}

// commID is what is recorded of an ncclUniqueId, with the number of ranks; zero: not known.
type commID struct {
	words [stackWords]uint64
	ranks uint64
}

// comm is one rank of a communicator, as a process has it.
type comm struct {
	Rank
	session    int64
	id         commID
	transfers  int     // in the window
	operations []begun // of these, in order of their begins, without sends and receives
	group      *commGroup
	shift      int // the group's first rank has the operation i at i + shift
}

// begun is an operation that a rank began.
type begun struct {
	operation
	startNS int64
}

// commGroup is ranks of one communicator.
type commGroup struct {
	ranks     []*comm
	matchedBy string
	functions map[string]*TransferSum
}

// comm returns a rank by its handle; nil: there are too many.
func (in *transfers) comm(c *rcclCall, handle uint64) *comm {
	key := commKey{c.session, handle}
	of := in.comms[key]
	if of == nil && len(in.order) < mostComms {
		of = &comm{Rank: Rank{Rank: -1, PID: c.pid, Thread: c.tid, Name: traceread.Cut(c.threadName, traceread.LongestWord)}, session: c.session}
		in.comms[key] = of
		in.order = append(in.order, of)
	}
	return of
}

// describe takes what a call says of a communicator. It returns false for a call of another type.
func (in *transfers) describe(c *rcclCall) bool {
	handle, _ := c.word("comm")
	key := commKey{c.session, handle}
	switch c.function.name {
	case "ncclCommInitRank", "ncclCommInitRankConfig":
		in.begin(c, handle)
	case "ncclCommDestroy", "ncclCommAbort":
		delete(in.comms, key)
	case "ncclCommUserRank":
		if rank, has := c.word("rank"); has && c.flags&HasOut != 0 {
			if of := in.comm(c, handle); of != nil {
				of.Rank.Rank = int64(int32(rank))
			}
		}
	default:
		return false
	}
	return true
}

// begin takes a new communicator's rank, number of ranks, and id.
func (in *transfers) begin(c *rcclCall, handle uint64) {
	if c.flags&HasOut == 0 {
		return
	}
	delete(in.comms, commKey{c.session, handle})
	of := in.comm(c, handle)
	if of == nil {
		return
	}
	rank, _ := c.word("rank")
	of.Rank.Rank = int64(int32(rank))
	of.id.ranks, _ = c.word("nranks")
	copy(of.id.words[:], c.stack)
}

func (c *comm) add(t *transfer) {
	c.transfers++
	if t.function != "ncclSend" && t.function != "ncclRecv" {
		c.operations = append(c.operations, begun{t.operation, t.startNS})
	}
}

// match groups the ranks that have transfers: by the id with which they were made, or by their operations.
func match(all []*comm) (groups []*commGroup) {
	for _, c := range all {
		if c.transfers == 0 {
			continue
		}
		for _, g := range groups {
			if g.takes(c) {
				break
			}
		}
		if c.group == nil {
			c.group = &commGroup{ranks: []*comm{c}, matchedBy: "none", functions: map[string]*TransferSum{}}
			groups = append(groups, c.group)
		}
	}
	return groups
}

// takes adds a rank to the group that it belongs to.
func (g *commGroup) takes(c *comm) bool {
	first, by := g.ranks[0], "id"
	if first.id != c.id {
		return false
	}
	if c.id == (commID{}) {
		by = "calls"
		if slices.ContainsFunc(g.ranks, func(other *comm) bool { return other.session == c.session && other.Thread == c.Thread }) {
			return false
		}
	}
	shift, same := align(first.operations, c.operations)
	if !same && by == "calls" {
		return false
	}
	if !same {
		shift = noShift
	}
	c.group, c.shift, g.matchedBy = g, shift, by
	g.ranks = append(g.ranks, c)
	return true
}

const (
	mostShift = 16      // operations that one rank is ahead of another when the recording begins
	mostLooks = 256     // operations that are looked at to find that
	leastSame = 8       // operations that must be the same
	noShift   = 1 << 30 // the operations of two ranks are not the same
)

// align finds how many operations more b lacks at its begin than a: b[i] is the same operation as a[i+shift]. If several
// shifts fit, the ranks are taken to have begun their operations close together.
func align(a, b []begun) (shift int, same bool) {
	nearest := int64(-1)
	for s := -mostShift; s <= mostShift; s++ {
		distance, fits := apart(a, b, s)
		if fits && (nearest < 0 || distance < nearest) {
			shift, nearest = s, distance
		}
	}
	return shift, nearest >= 0
}

// apart returns the median distance of the same operations of two ranks. It returns false if they are not the same.
func apart(a, b []begun, shift int) (medianNS int64, fits bool) {
	var distances []int64
	for i := max(0, -shift); i < len(b) && i+shift < len(a) && len(distances) < mostLooks; i++ {
		if a[i+shift].operation != b[i].operation {
			return 0, false
		}
		d := a[i+shift].startNS - b[i].startNS
		distances = append(distances, max(d, -d))
	}
	if len(distances) < leastSame {
		return 0, false
	}
	slices.Sort(distances)
	return distances[len(distances)/2], true
}

// function returns the sums of a function, or of groups with these functions.
func (g *commGroup) function(name string) *TransferSum {
	s := g.functions[name]
	if s == nil {
		s = &TransferSum{Function: name}
		g.functions[name] = s
	}
	return s
}

func (g *commGroup) report() Communicator {
	c := Communicator{MatchedBy: g.matchedBy, Lateness: g.lateness(), Ranks: []Rank{}, Functions: []TransferSum{}}
	for _, r := range g.ranks {
		c.Ranks = append(c.Ranks, r.Rank)
	}
	for _, s := range g.functions {
		s.BytesPerSecond = rate(s.timedBytes, s.GPUNS)
		c.Functions = append(c.Functions, *s)
		c.calls = traceread.Sum(c.calls, s.Calls)
	}
	slices.SortFunc(c.Functions, func(a, b TransferSum) int {
		return cmp.Or(cmp.Compare(b.GPUNS, a.GPUNS), cmp.Compare(a.Function, b.Function))
	})
	return c
}

// lateness compares the begins of each operation; nil: no operation is known of several ranks.
func (g *commGroup) lateness() *RankLateness {
	var late []int64
	for i := range g.ranks[0].operations {
		if ns, last := g.latest(i); last != nil {
			late = append(late, ns)
			last.Last++
		}
	}
	if len(late) == 0 {
		return nil
	}
	slices.Sort(late)
	return &RankLateness{Operations: int64(len(late)), P50NS: late[len(late)*50/100], P99NS: late[len(late)*99/100], MaxNS: late[len(late)-1]}
}

// latest returns which rank began an operation of the first rank last, and how long after the earliest. It returns
// nil if not all ranks, of several, have the operation.
func (g *commGroup) latest(i int) (ns int64, last *comm) {
	first := g.ranks[0].operations[i]
	earliestNS, latestNS, ranks := first.startNS, first.startNS, 1
	last = g.ranks[0]
	for _, r := range g.ranks[1:] {
		if r.shift == noShift {
			continue
		}
		at := i - r.shift
		if at < 0 || at >= len(r.operations) || r.operations[at].operation != first.operation {
			return 0, nil
		}
		ranks++
		earliestNS = min(earliestNS, r.operations[at].startNS)
		if r.operations[at].startNS > latestNS {
			latestNS, last = r.operations[at].startNS, r
		}
	}
	if ranks == 1 {
		return 0, nil
	}
	return latestNS - earliestNS, last
}
