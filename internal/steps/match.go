package steps

import (
	"math/bits"
	"slices"
)

// matcher finds sequences in a window of symbols, by the hashes of the window's prefixes.
type matcher struct {
	patterns [][]int64 // the longest first in order
	order    []int
	hash     []uint64 // of the patterns
	power    []uint64 // of the base, to the patterns' lengths
	symbols  []int64
	prefix   []uint64 // prefix[i] is of symbols[:i]
}

const base = 0x9e3779b97f4a7c15

func newMatcher(patterns [][]int64) *matcher {
	m := &matcher{patterns: patterns, prefix: []uint64{0}}
	for i, p := range patterns {
		h, power := uint64(0), uint64(1)
		for _, s := range p {
			h, power = h*base+spread(s), power*base
		}
		m.hash, m.power, m.order = append(m.hash, h), append(m.power, power), append(m.order, i)
	}
	slices.SortStableFunc(m.order, func(a, b int) int { return len(patterns[b]) - len(patterns[a]) })
	return m
}

// spread mixes the bits of a symbol (splitmix64).
func spread(s int64) uint64 {
	x := uint64(s) + base
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (m *matcher) append(kernels []kernel) {
	for i := range kernels {
		m.add(kernels[i].symbol)
	}
}

func (m *matcher) add(symbol int64) {
	m.symbols = append(m.symbols, symbol)
	m.prefix = append(m.prefix, m.prefix[len(m.prefix)-1]*base+spread(symbol))
}

// drop drops the first symbols.
func (m *matcher) drop(n int) {
	m.symbols = m.symbols[:copy(m.symbols, m.symbols[n:])]
	m.prefix = m.prefix[:copy(m.prefix, m.prefix[n:])]
}

// at returns the longest sequence at a place of the window; -1: none.
func (m *matcher) at(i int) int {
	for _, p := range m.order {
		if m.matches(p, i) {
			return p
		}
	}
	return -1
}

func (m *matcher) matches(p, i int) bool {
	return m.hashEquals(p, i) && slices.Equal(m.symbols[i:i+len(m.patterns[p])], m.patterns[p])
}

func (m *matcher) hashEquals(p, i int) bool {
	n := len(m.patterns[p])
	return i+n <= len(m.symbols) && m.symbols[i] == m.patterns[p][0] && m.prefix[i+n]-m.prefix[i]*m.power[p] == m.hash[p]
}

// parser divides the kernels of a thread into steps, and kernels in none.
type parser struct {
	kinds   *kinds
	m       *matcher
	kernels []kernel // of m's window
	done    int      // kernels of the window that are in a step, or in none
	room    int      // kernels to hold before a decision
	longest int
	synced  bool   // the last kernel before is the end of a step
	sole    []bool // of each sequence: it is not one that is repeated, so it is found where it begins only
	credit  int    // comparisons that unequal kernels may still cost
}

// Limits of a parser: unequal kernels may cost so many comparisons for each kernel.
const (
	mostAhead       = 5 // steps whose gaps tell where they begin
	creditPerKernel = 64
	mostCredit      = 1 << 20
)

func newParser(ks *kinds) *parser {
	p := &parser{kinds: ks, m: newMatcher(ks.patterns()), credit: mostCredit}
	for _, pattern := range ks.patterns() {
		p.longest = max(p.longest, len(pattern))
		p.sole = append(p.sole, period(pattern) == len(pattern))
	}
	p.room = (mostAhead+2)*p.longest + leastKernels
	return p
}

func (p *parser) add(k kernel) error {
	p.kernels = append(p.kernels, k)
	p.m.add(k.symbol)
	p.credit = min(p.credit+creditPerKernel, mostCredit)
	if len(p.kernels) < 2*p.room {
		return nil
	}
	return p.divide(p.room)
}

func (p *parser) end() error { return p.divide(0) }

// divide divides the window until at most left kernels are held.
func (p *parser) divide(left int) error {
	for len(p.kernels)-p.done > left {
		n, err := p.next()
		if err != nil {
			return err
		}
		p.done += n
	}
	p.m.drop(p.done)
	p.kernels = p.kernels[:copy(p.kernels, p.kernels[p.done:])]
	p.done = 0
	return nil
}

// next takes a step, or a kernel that is in none, and returns how many kernels these are.
func (p *parser) next() (int, error) {
	at := p.done
	if kind := p.m.at(at); kind >= 0 {
		n := len(p.m.patterns[kind])
		if !p.synced && p.later(kind, at) {
			return 1, nil
		}
		p.synced = true
		return n, p.kinds.step(kind, p.kernels[at:at+n], nil)
	}
	if kind, n, edits := p.similar(at); kind >= 0 {
		p.synced = true
		return n, p.kinds.step(kind, p.kernels[at:at+n], edits)
	}
	p.synced = false
	return 1, nil
}

// later reports whether a step of the same kind may begin later in this one: the gaps before the steps behind it would
// be longer.
func (p *parser) later(kind, at int) bool {
	n := len(p.m.patterns[kind])
	if p.credit -= (mostAhead + 1) * n; p.credit < 0 {
		return false
	}
	steps := min((len(p.kernels)-at)/n-1, mostAhead)
	gaps := func(i int) (sum int) {
		for s := 1; s <= steps; s++ {
			sum += bits.Len64(uint64(p.kernels[i+s*n].gapNS)) // one long gap counts no more than several
		}
		return sum
	}
	if steps < 1 {
		return false
	}
	now := gaps(at)
	for i := at + 1; i < at+n && i+steps*n < len(p.kernels); i++ {
		if p.m.hashEquals(kind, i) && gaps(i) > now {
			return true
		}
	}
	return false
}

// similar returns the kind of step of which most kernels are at a place; -1: there is none.
func (p *parser) similar(at int) (kind, n int, best *edits) {
	kind = -1
	for _, one := range p.m.order {
		pattern := p.m.patterns[one]
		if p.m.symbols[at] != pattern[0] && !p.synced || p.credit < 0 {
			continue
		}
		e := align(pattern, p.m.symbols[at:p.until(one, at)])
		p.credit -= e.cost
		if e.fits && (best == nil || len(e.list) < len(best.list)) {
			kind, n, best = one, e.length, e
		}
	}
	return kind, n, best
}

// until returns up to where a step that is similar to a sequence can reach: no further than the next equal one. Else a step with missing
// kernels would take them from the next one, and so on.
func (p *parser) until(one, at int) int {
	n := len(p.m.patterns[one])
	until := min(len(p.m.symbols), at+n+mostEdits(n))
	if !p.sole[one] {
		return until
	}
	p.credit -= until - at
	for i := at + 1; i < until; i++ {
		if p.m.hashEquals(one, i) {
			return i
		}
	}
	return until
}
