package whyidle

import (
	"context"
	"errors"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// GapSpan names a gap to answer on its own.
type GapSpan struct {
	GPU int64
	traceread.Span
}

// Find answers the questions. gaps are answered on their own, too; they must not overlap on one GPU.
func Find(ctx context.Context, tr *traceread.Trace, windows []Window, qs *Questions, gaps []GapSpan, stacks *Stacks) (*Answer, error) {
	a, err := find(ctx, tr, windows, qs, gaps, stacks, false)
	if errors.Is(err, errDisorder) {
		a, err = find(ctx, tr, windows, qs, gaps, stacks, true)
	}
	return a, err
}

func find(ctx context.Context, tr *traceread.Trace, windows []Window, qs *Questions, gaps []GapSpan, stacks *Stacks, sorted bool) (*Answer, error) {
	of, err := readSessions(ctx, tr, windows)
	if err != nil {
		return nil, err
	}
	s := newSweep(of, gaps, stacks)
	waits, samples, err := open(ctx, tr, of, sorted)
	if err != nil {
		return nil, fmt.Errorf("samples and waits: %w", err)
	}
	defer waits.close()   // the file was only read
	defer samples.close() // likewise
	asked, err := qs.rewind()
	if err != nil {
		return nil, err
	}
	if err := s.run(asked, waits, samples); err != nil {
		return nil, err
	}
	return s.answer()
}

// wakes is the SQL of the time at which a wait ends.
const wakes = `coalesce(in_ns, (SELECT min(coalesce(w.ended_ns, %[1]d)) FROM rtl_cpu_window w
	WHERE w.session_id = x.session_id AND coalesce(w.ended_ns, %[1]d) >= x.out_ns), %[1]d)`

func open(ctx context.Context, tr *traceread.Trace, of *sessions, sorted bool) (waits *source[wait, *wait], samples *source[sample, *sample], err error) {
	const waitTable, sampleTable = "rtl_cpu_wait", "rtl_cpu_sample"
	if sorted {
		waits, err = inTimeOrder[wait](ctx, tr, waitTable, fmt.Sprintf(wakes, int64(traceread.LatestNS)), waitColumns, of.waitOf)
		if err == nil {
			samples, err = inTimeOrder[sample](ctx, tr, sampleTable, "time_ns", sampleColumns, sampleOf)
		}
	} else {
		waits, err = inRecordedOrder[wait](tr, waitTable, waitColumns, of.waitOf)
		if err == nil {
			samples, err = inRecordedOrder[sample](tr, sampleTable, sampleColumns, sampleOf)
		}
	}
	if err != nil && waits != nil {
		_ = waits.close() // the file was only read
	}
	return waits, samples, err
}

// sweep joins questions, waits and samples in the order of time.
type sweep struct {
	*sessions
	stacks   *Stacks
	past     past
	lanes    map[laneKey]*lane
	byThread map[int64][]*lane
	gpus     map[int64]*sums
	gaps     []gapSums // sorted by GPU and begin
	gil      gilWaits
	unknown  preempted
}

// laneKey is a thread that submits to a GPU.
type laneKey struct{ gpu, thread int64 }

// lane holds the open questions about a thread and a GPU, in the order of their begins.
type lane struct {
	laneKey
	open []openQuestion
	head int
	sums *laneSums
}

// openQuestion is the part of a question in a window.
type openQuestion struct {
	Question
	atNS    int64 // what was before it is answered
	sampled bool  // there is a sample from atNS on
	window  *Window
	gap     *gapSums // nil: it is not to be answered on its own
}

func newSweep(of *sessions, gaps []GapSpan, stacks *Stacks) *sweep {
	s := &sweep{
		sessions: of, stacks: stacks, past: past{threads: map[int64]*threadPast{}}, lanes: map[laneKey]*lane{},
		byThread: map[int64][]*lane{}, gpus: map[int64]*sums{}, gil: gilWaits{}, unknown: preempted{},
	}
	for i, g := range gaps {
		s.gaps = append(s.gaps, gapSums{GapSpan: g, number: i, sums: newSums()})
	}
	sortGaps(s.gaps)
	return s
}

// run takes the rows in the order of time. Of rows of one time, questions come first.
func (s *sweep) run(asked *asked, waits *source[wait, *wait], samples *source[sample, *sample]) error {
	for {
		question, wait, sample := asked.nextNS(), waits.nextNS(), samples.nextNS()
		switch {
		case min(question, wait, sample) > traceread.LatestNS:
			return nil
		case question <= wait && question <= sample:
			q, err := asked.take()
			if err != nil {
				return err
			}
			if err := s.ask(q); err != nil {
				return err
			}
		case sample <= wait:
			one, err := samples.take()
			if err != nil {
				return err
			}
			s.sample(&one)
		default:
			one, err := waits.take()
			if err != nil {
				return err
			}
			if err := s.wait(&one); err != nil {
				return err
			}
		}
	}
}

// ask adds a question to its lane, and ends the lane's questions about earlier gaps.
func (s *sweep) ask(q Question) error {
	gap := s.gapOf(&q)
	if q.Thread == tracedb.Null || len(s.windows[s.sessionOf[q.Thread]]) == 0 {
		s.unobserved(&q, gap, q.EndNS-q.BeginNS)
		return nil
	}
	l, err := s.lane(laneKey{q.GPU, q.Thread})
	if err != nil {
		return err
	}
	l.endSubmitted(q.BeginNS)
	at := q.BeginNS
	windows := s.windows[s.sessionOf[q.Thread]]
	for i := range windows {
		w := &windows[i]
		part := q
		part.Span = w.Clip(traceread.Span{BeginNS: at, EndNS: q.EndNS})
		if part.BeginNS >= part.EndNS {
			continue
		}
		s.unobserved(&q, gap, part.BeginNS-at)
		l.open = append(l.open, openQuestion{Question: part, atNS: part.BeginNS, window: w, gap: gap})
		s.count(q.GPU, gap, part.EndNS-part.BeginNS)
		s.gpu(q.GPU).observe(w, part.EndNS-part.BeginNS)
		at = part.EndNS
	}
	s.unobserved(&q, gap, q.EndNS-at)
	return nil
}

// mostLanes limits the pairs of a GPU and a thread that submits to it.
const mostLanes = 1 << 14

func (s *sweep) lane(key laneKey) (*lane, error) {
	l := s.lanes[key]
	if l == nil {
		if len(s.lanes) >= mostLanes {
			return nil, fmt.Errorf("over %d pairs of a GPU and a thread: %w", mostLanes, traceread.ErrImpossible)
		}
		l = &lane{laneKey: key, sums: s.gpu(key.gpu).lane(key.thread)}
		s.lanes[key] = l
		s.byThread[key.thread] = append(s.byThread[key.thread], l)
	}
	return l, nil
}

// count counts the observed time of a question.
func (s *sweep) count(gpu int64, gap *gapSums, ns int64) {
	s.gpu(gpu).hostNS += ns
	if gap != nil {
		gap.sums.hostNS += ns
	}
}

func (s *sweep) unobserved(q *Question, gap *gapSums, ns int64) {
	if ns <= 0 {
		return
	}
	s.count(q.GPU, gap, ns)
	s.put(q.GPU, gap, Cause{Thread: q.Thread, State: Unobserved, Syscall: tracedb.Null}, ns)
}

func (s *sweep) put(gpu int64, gap *gapSums, c Cause, ns int64) {
	if ns <= 0 {
		return
	}
	s.gpu(gpu).put(c, ns)
	if gap != nil {
		gap.sums.put(c, ns)
	}
}

// sample counts a sample for the questions about its thread.
func (s *sweep) sample(one *sample) {
	if one.state != cputrace.DidNotRun {
		s.unknown.end(s, one.thread, one.timeNS, stackEvent{stack: one.stack, syscall: tracedb.Null})
		s.past.addSample(one)
	}
	for _, l := range s.byThread[one.thread] {
		if one.state != cputrace.DidNotRun {
			l.endUntil(one.timeNS)
		}
		for i := l.head; i < len(l.open) && l.open[i].BeginNS <= one.timeNS; i++ {
			q := &l.open[i]
			if one.timeNS < q.atNS || one.timeNS >= q.EndNS || one.clock != q.window.clock() {
				continue
			}
			state := Running
			if one.state == cputrace.DidNotRun {
				if q.window.Scheduling {
					continue
				}
				state = Blocked
			}
			q.sampled = true
			key := stateStack{state, one.stack, one.state == cputrace.RanKernel}
			l.sums.sample(key, q.window)
			if q.gap != nil {
				q.gap.sums.lane(l.thread).sample(key, q.window)
			}
		}
	}
}

// wait divides the questions about its thread.
func (s *sweep) wait(w *wait) error {
	defer s.past.addWait(w)
	lanes := s.byThread[w.thread]
	if len(lanes) == 0 {
		return nil
	}
	switch {
	case w.stack != 0:
		s.unknown.end(s, w.thread, w.outNS, stackEvent{stack: w.stack, syscall: w.syscall})
	case w.preempted:
		s.unknown.begin(s, w)
	}
	if err := s.gil.follow(s, w); err != nil {
		return err
	}
	for _, l := range lanes {
		l.endUntil(w.outNS)
		for i := l.head; i < len(l.open) && l.open[i].BeginNS < w.inNS; i++ {
			if q := &l.open[i]; q.window.Scheduling {
				s.divide(l, q, w)
			}
		}
		l.endUntil(w.inNS)
	}
	return nil
}

// divide divides a question by a wait of its thread: it ran up to the wait.
func (s *sweep) divide(l *lane, q *openQuestion, w *wait) {
	l.ran(q, min(w.outNS, q.EndNS))
	at := q.atNS
	clip := func(beginNS, endNS int64) traceread.Span {
		return traceread.Span{BeginNS: max(beginNS, at), EndNS: min(endNS, q.EndNS)}
	}
	blocked, ready := clip(w.outNS, w.wokenNS), clip(w.wokenNS, w.inNS)
	if blocked.EndNS > blocked.BeginNS {
		p := blockedPiece{gpu: q.GPU, gap: q.gap, cause: w.cause(), span: blocked}
		s.putBlocked(&p)
		s.gil.add(w, p)
	}
	if ns := ready.EndNS - ready.BeginNS; ns > 0 {
		if w.preempted && w.stack == 0 {
			s.unknown.add(l, q.gap, ns)
		} else {
			s.put(q.GPU, q.gap, Cause{Thread: w.thread, State: Ready, Stack: w.stack, Syscall: tracedb.Null}, ns)
		}
	}
	if end := min(w.inNS, q.EndNS); end > q.atNS {
		q.atNS, q.sampled = end, false
	}
}

// ran counts the time up to untilNS, in which the thread of a question ran.
func (l *lane) ran(q *openQuestion, untilNS int64) {
	ns := untilNS - q.atNS
	if ns <= 0 {
		return
	}
	l.sums.ran(ns, q.sampled, q.window)
	if q.gap != nil {
		q.gap.sums.lane(l.thread).ran(ns, q.sampled, q.window)
	}
	q.atNS, q.sampled = untilNS, false
}

// endUntil ends the questions about times up to atNS, at which the thread ran: no wait that is to come
// was in them.
func (l *lane) endUntil(atNS int64) {
	l.end(func(q *openQuestion) bool { return q.EndNS <= atNS })
}

// endSubmitted ends the questions about kernels that the thread submitted before atNS: it ran then.
func (l *lane) endSubmitted(atNS int64) {
	l.end(func(q *openQuestion) bool { return max(q.UntilNS, q.EndNS) <= atNS })
}

func (l *lane) end(ended func(*openQuestion) bool) {
	for l.head < len(l.open) && ended(&l.open[l.head]) {
		q := &l.open[l.head]
		l.ran(q, q.EndNS)
		l.head++
	}
	if l.head == len(l.open) || l.head > 1<<10 && l.head > len(l.open)/2 {
		l.open, l.head = l.open[:copy(l.open, l.open[l.head:])], 0
	}
}
