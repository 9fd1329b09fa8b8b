package report

import (
	"cmp"
	"slices"
	"sort"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// cause is what a GPU was probably waiting for while no kernel ran on it.
type cause int

// The submit of the kernel that ends a gap divides the gap. Before the submit the GPU waited
// for the host. After it, the time is launch latency, or the kernel waited for a packet in
// front of it.
const (
	causeHost       cause = iota // the next kernel was not submitted yet
	causeLaunch                  // it was submitted, with no known packet in front of it
	causeDependency              // it was submitted, behind packets that are not kernels: barriers
	causeCopy                    // a copy ran on the GPU meanwhile
	causeUnknown                 // its submit time is not known, or kernels without times or without records may have run
	causeBacklog                 // packets that were queued before the recording may have run
	causeEdge                    // before the first kernel of the recording, or after the last
	causes
)

// causeNames must not change, because scripts use them. causeTexts are for users.
var causeNames = [causes]string{"host", "launch", "dependency", "copy", "unknown", "backlog", "edge"}

var causeTexts = [causes]string{
	"host: the next kernel was not submitted yet",
	"launch latency: submitted, with nothing known in front of it",
	"dependency: submitted behind a barrier packet",
	"copy: a copy ran meanwhile",
	"not known: no submit time, or something without times, or lost, was there",
	"backlog: what was queued before the recording may have run, unseen",
	"before the first kernel recorded, or after the last",
}

// idleness sums up the gaps of one GPU.
type idleness struct {
	count     int64
	longestNS int64
	byCause   [causes]causeTotal
}

type causeTotal struct{ gaps, totalNS, longestNS int64 }

func (t *causeTotal) add(ns int64) {
	if ns > 0 {
		t.gaps++
		t.totalNS += ns
		t.longestNS = max(t.longestNS, ns)
	}
}

// gap is a time in which no recorded kernel ran on a GPU.
type gap struct {
	gpu      *gpu
	span     traceread.Span
	parts    [causes]int64 // ns of each cause
	length   int64         // ns of its recorded parts in the window
	fromNS   int64         // begin of the first recorded part
	queue    *queue        // the queue of the kernel that ended it
	kernel   int32
	thread   int64
	host     []traceread.Span // the parts of causeHost; valid until the next gap
	late     []traceread.Span // the parts of these in which other ranks waited for the GPU's
	untilNS  int64            // the submit of the kernel that ended it
	started  startCause       // of the part after the submit
	waitedNS int64            // that part
}

// likely returns the cause with the most time.
func (g *gap) likely() cause {
	most := causeHost
	for c, ns := range g.parts {
		if ns > g.parts[most] {
			most = cause(c)
		}
	}
	return most
}

// ended returns the gap that a kernel ends, with its causes. ok is false if there is none.
func (g *gpu) ended(q *queue, k *pendingKernel, window traceread.Span, coarse bool) (one gap, ok bool) {
	if !g.busy.begun || k.startNS <= g.busy.untilNS {
		return gap{}, false
	}
	one = gap{
		gpu: g, span: traceread.Span{BeginNS: g.busy.untilNS, EndNS: k.startNS},
		queue: q, kernel: k.kernel, thread: k.thread,
	}
	m := g.recordedWithin(one.span, q.session, window)
	if one.length = m.length(one.span.BeginNS, one.span.EndNS); one.length == 0 {
		return gap{}, false
	}
	one.fromNS = m.first(one.span.BeginNS, one.span.EndNS)
	d := g.divisionOf(one.span, q, k, coarse)
	if d.before == causeHost { // before divide, which drops past copies
		one.askHost(m, d.atNS)
		one.askStart(k, d.after, d.atNS)
	}
	one.divideLate(m, d)
	one.divide(m, d, one.span, &g.copies)
	if d.before == causeHost {
		one.waitedNS = one.parts[d.after]
	}
	g.gaps.count++
	g.gaps.longestNS = max(g.gaps.longestNS, one.length)
	for c, ns := range one.parts {
		g.gaps.byCause[c].add(ns)
	}
	return one, true
}

// division says which cause a gap has before a time, and which after it.
type division struct {
	before, after cause
	atNS          int64
}

func (g *gpu) divisionOf(span traceread.Span, q *queue, k *pendingKernel, coarse bool) division {
	behind := q.inFront(k.packet, coarse)
	lost := g.lost.within(measure{window: traceread.Always}, span.BeginNS, span.EndNS) > 0
	switch {
	case g.mayHide(span):
		return division{causeBacklog, causeBacklog, span.EndNS}
	case k.submitNS == tracedb.Null || behind == causeUnknown || lost:
		return division{causeUnknown, causeUnknown, span.EndNS}
	}
	return division{causeHost, behind, max(span.BeginNS, min(k.submitNS, span.EndNS))}
}

// divide adds a part of a gap to its causes, and the time of copies in it to causeCopy.
func (g *gap) divide(m measure, d division, s traceread.Span, copies *intervals) {
	atNS := max(s.BeginNS, min(d.atNS, s.EndNS))
	g.put(m, d.before, s.BeginNS, atNS, copies)
	g.put(m, d.after, atNS, s.EndNS, copies)
}

func (g *gap) put(m measure, c cause, beginNS, endNS int64, copies *intervals) {
	copied := copies.within(m, beginNS, endNS)
	g.parts[causeCopy] += copied
	g.parts[c] += m.length(beginNS, endNS) - copied
}

// inFront returns the cause of the delay between a packet's submit and its start.
func (q *queue) inFront(packet int64, coarse bool) cause {
	if q.packet < 0 || packet <= q.packet+1 {
		return causeLaunch
	}
	if coarse || q.Account == nil || q.Account.Unexplained != 0 {
		return causeUnknown
	}
	next := sort.Search(len(q.untimedIndexes), func(i int) bool { return q.untimedIndexes[i] > q.packet })
	if next < len(q.untimedIndexes) && q.untimedIndexes[next] < packet {
		return causeUnknown
	}
	return causeDependency
}

// measure computes how much of a time was recorded.
type measure struct {
	window traceread.Span
	spans  []traceread.Span // nil: the whole window was recorded
}

func (m measure) length(beginNS, endNS int64) int64 {
	if m.spans == nil {
		return m.window.Within(beginNS, endNS)
	}
	var clipped []traceread.Span
	for _, s := range m.spans {
		clipped = append(clipped, s.Clip(traceread.Span{BeginNS: beginNS, EndNS: endNS}))
	}
	return covered(clipped, m.window)
}

// first returns the begin of the recorded part of a time, which must have one.
func (m measure) first(beginNS, endNS int64) int64 {
	beginNS = max(beginNS, m.window.BeginNS)
	if m.spans == nil {
		return beginNS
	}
	first := endNS
	for _, s := range m.spans {
		if at := max(s.BeginNS, beginNS); at < min(s.EndNS, endNS) {
			first = min(first, at)
		}
	}
	return first
}

// recordedWithin measures a gap before a kernel of gs: the parts in the declared window of a
// session. A session without a known begin or end of its window has recorded the time
// between two of its kernels.
func (g *gpu) recordedWithin(gap traceread.Span, gs *gpuSession, window traceread.Span) measure {
	switch {
	case gs.begins && gs.ends && gs.declared.Clip(gap) == gap, // most gaps
		!(gs.begins && gs.ends) && (gs == g.last || gs.seen):
		return measure{window: gs.declared.Clip(window)}
	}
	return measure{window: window, spans: g.windows()}
}

// windows returns the windows of the GPU's sessions that have a known begin or end.
func (g *gpu) windows() []traceread.Span {
	spans := []traceread.Span{}
	for _, gs := range g.sessions {
		if s := gs.declared; gs.ends {
			s.BeginNS = gs.session.FromNS()
			spans = append(spans, s)
		}
	}
	return spans
}

// mostGaps is the number of gaps in a report's list of the longest.
const mostGaps = 10

// longest keeps the longest gaps, the longest first; of equal ones the earliest.
type longest struct {
	gaps []gap
	most int
}

func (l *longest) add(one gap) {
	if len(l.gaps) == l.most && one.length < l.gaps[l.most-1].length {
		return
	}
	at := sort.Search(len(l.gaps), func(i int) bool { return one.before(&l.gaps[i]) })
	l.gaps = slices.Insert(l.gaps, at, one)
	l.gaps = l.gaps[:min(len(l.gaps), l.most)]
}

// before reports whether the first gap precedes the second in the list of the longest.
func (g *gap) before(other *gap) bool {
	return cmp.Or(cmp.Compare(other.length, g.length), cmp.Compare(g.span.BeginNS, other.span.BeginNS), cmp.Compare(g.gpu.id, other.gpu.id)) < 0
}
