package harness

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

// CallComparison compares the API calls in all traces of one process with its own log of them.
//
// Within a session a kind of call is recorded from one moment to another, for all threads: a call
// that began after a recorded one had ended, and had returned before another one ended, must be
// recorded.
type CallComparison struct {
	faults
	log       map[int64][]*APICall // by thread
	functions map[string]apiFunction
	logged    map[string]bool // functions
	said      map[*APICall]bool

	GOT bool // HIP's and RCCL's functions are intercepted at their callers, where pointers of dlsym do not lead

	All bool // each session began before the program's first call: it has the first ones, too

	Calls    map[string]int // recorded and compared, by function
	Kinds    map[string]int // the same, by kind
	Missing  map[string]int // by kind: calls of the program's that had to be recorded and were lost
	Internal int            // calls of HSA by HIP, or by threads of the runtimes
	Lost     int64
}

// CompareAPICalls compares the traces of a process that has ended.
func CompareAPICalls(t testing.TB, p *Process, got bool, runs ...Run) *CallComparison {
	t.Helper()
	c := NewCallComparison(t, p.APICalls(t), got)
	for _, run := range runs {
		c.Add(ReadAPICalls(t, run.Trace))
	}
	c.Finish()
	return c
}

// NewCallComparison begins a comparison. Call Add for each trace, then Finish.
func NewCallComparison(t Reporter, log map[int64][]*APICall, got bool) *CallComparison {
	c := &CallComparison{
		faults: faults{t: t, n: map[string]int{}}, log: log, said: map[*APICall]bool{}, GOT: got,
		logged: map[string]bool{}, Calls: map[string]int{}, Kinds: map[string]int{}, Missing: map[string]int{},
	}
	for _, calls := range log {
		for _, call := range calls {
			c.logged[call.Function] = true
		}
	}
	var err error
	if c.functions, err = apiFunctions(); err != nil {
		c.wrong("functions", "%v", err)
	}
	return c
}

// apiLane is calls of one thread that follow each other, or contain each other: those of a kind.
// A signal handler interrupts others in between, so it has a lane for itself, and functions.
type apiLane struct {
	tid       int64
	kind      string
	inHandler bool
}

// Add compares what one session recorded.
func (c *CallComparison) Add(tr *APITrace) {
	c.t.Helper()
	lanes, handlers := c.lanes(tr)
	recorded := map[apiLane][]*APIRecord{}
	spans := map[string]*apiSpan{}
	rows := map[string]int64{}
	within := outerEnds{}
	for i := range tr.Calls {
		r := &tr.Calls[i]
		rows[r.Kind]++
		if spans[r.Kind] == nil {
			spans[r.Kind] = &apiSpan{fromNS: math.MaxInt64}
		}
		spans[r.Kind].add(r)
		if c.All {
			spans[r.Kind].fromNS = 0
		}
		if r.StartNS < tr.Session.ArmedNS-stampToleranceNS || tr.Session.EndedNS != 0 && r.EndNS > tr.Session.EndedNS+stampToleranceNS {
			c.wrong("session", "%+v is not within %+v", *r, tr.Session)
		}
		if isHSA(r.Kind) && c.isInternal(r) || r.Kind == "rccl-api" && (within.isNested(r) || !c.logged[r.Function] && c.isInternal(r)) {
			c.Internal++
			continue
		}
		lane := apiLane{r.TID, r.Kind, handlers[r.TID][r.Function]}
		recorded[lane] = append(recorded[lane], r)
	}
	left := map[string]*unrecorded{}
	for _, kind := range apiKinds {
		left[kind] = &unrecorded{}
	}
	for lane, calls := range lanes {
		if span := spans[lane.kind]; span != nil {
			c.lane(tr, span, calls, recorded[lane], left[lane.kind])
		} else {
			left[lane.kind].none(calls, tr)
		}
		delete(recorded, lane)
	}
	for lane, rows := range recorded {
		if isHSA(lane.kind) && c.hasEnded(lane.tid, rows[0].StartNS) {
			c.Internal += len(rows)
			continue
		}
		c.wrong("thread", "%d made no such calls, but %d are recorded, such as %+v", lane.tid, len(rows), *rows[0])
	}
	c.accounts(tr, rows, left)
}

// hasEnded reports whether a thread makes no more calls of its own: in exit() HIP from 6 on destroys its queues and memory.
func (c *CallComparison) hasEnded(tid, ns int64) bool {
	calls := c.log[tid]
	return len(calls) > 0 && calls[len(calls)-1].AfterNS != 0 && calls[len(calls)-1].AfterNS < ns
}

func isHSA(kind string) bool { return strings.HasPrefix(kind, "hsa") }

// outerEnds has the end of the last call of each thread that lies within no other.
type outerEnds map[int64]int64

// isNested reports whether a call lies within an earlier one of its thread. The program makes no such calls of RCCL: RCCL does.
func (e outerEnds) isNested(r *APIRecord) bool {
	if r.StartNS < e[r.TID] && r.EndNS <= e[r.TID] {
		return true
	}
	e[r.TID] = r.EndNS
	return false
}

// apiSpan is the time in which a kind was surely recorded.
type apiSpan struct{ fromNS, untilNS int64 }

func (s *apiSpan) add(r *APIRecord) {
	s.fromNS, s.untilNS = min(s.fromNS, r.EndNS), max(s.untilNS, r.EndNS)
}

// contains reports whether the call must have been recorded.
func (s *apiSpan) contains(c *APICall) bool {
	return c.BeforeNS > s.fromNS+stampToleranceNS && c.AfterNS < s.untilNS-stampToleranceNS
}

// unrecorded counts a kind's calls that a session has no record of.
type unrecorded struct {
	missing, cut int64 // cut: at the session's ends, where they may be
	example      *APICall
}

func (u *unrecorded) add(c *APICall) {
	u.missing++
	u.example = c
}

// none counts the calls in the middle of a session without a record.
func (u *unrecorded) none(calls []*APICall, tr *APITrace) {
	for _, c := range calls {
		if c.BeforeNS > tr.Session.ArmedNS+settleNS && c.AfterNS < tr.Session.DetachedNS-settleNS && (tr.UnknownNS == 0 || c.AfterNS < tr.UnknownNS) {
			u.add(c)
		}
	}
}

// lanes returns the calls that a session with these kinds records, and the functions of each
// thread's signal handlers.
func (c *CallComparison) lanes(tr *APITrace) (map[apiLane][]*APICall, map[int64]map[string]bool) {
	lanes, handlers := map[apiLane][]*APICall{}, map[int64]map[string]bool{}
	for tid, calls := range c.log {
		functions := map[string]bool{}
		handlers[tid] = functions
		for _, call := range calls {
			f, known := c.functions[call.Function]
			if !known || call.AfterNS == 0 || !tr.wants(call.Function, f) || c.GOT && call.ByPointer && !isHSA(f.kind) {
				continue
			}
			if _, recorded := tr.Accounts[f.kind]; recorded {
				lane := apiLane{tid, f.kind, call.InHandler}
				lanes[lane] = append(lanes[lane], call)
				functions[call.Function] = functions[call.Function] || call.InHandler
			}
		}
	}
	return lanes, handlers
}

// wants reports whether a session records a function of the kinds that it has.
func (tr *APITrace) wants(name string, f apiFunction) bool {
	switch {
	case f.when == "NEVER":
		return false
	case tr.Only != nil:
		return tr.Only(name)
	}
	return f.when != "ON_REQUEST" || tr.Signals
}

// isInternal reports whether a call of HSA was not the program's own: HIP made it, or a thread of
// the runtimes; the same for RCCL's function that the program does not call.
func (c *CallComparison) isInternal(r *APIRecord) bool {
	const depth = 8 // calls that contain each other, or that the tolerance takes in
	calls := c.log[r.TID]
	if len(calls) == 0 {
		return true
	}
	end, _ := slices.BinarySearchFunc(calls, r.StartNS+stampToleranceNS, func(c *APICall, ns int64) int { return cmp.Compare(c.BeforeNS, ns) })
	inHIP := false
	for seen := 0; end > 0 && seen < depth; {
		end--
		call := calls[end]
		if !call.InHandler { // of those a long call may contain any number
			seen++
		}
		if call.covers(r) {
			if call.Function == r.Function {
				return false
			}
			inHIP = inHIP || !strings.HasPrefix(call.Function, "hsa")
		}
	}
	return inHIP
}

// covers reports whether the record's times are within the call's.
func (a *APICall) covers(r *APIRecord) bool {
	return r.StartNS >= a.BeforeNS-stampToleranceNS && (a.AfterNS == 0 || r.EndNS <= a.AfterNS+stampToleranceNS)
}

// lane compares the calls of one lane.
func (c *CallComparison) lane(tr *APITrace, span *apiSpan, calls []*APICall, rows []*APIRecord, left *unrecorded) {
	at := 0
	for _, r := range rows {
		i := c.find(calls, at, r)
		if i < 0 {
			c.wrong("unknown", "%+v is recorded, and not called", *r)
			continue
		}
		c.same(calls[i], r)
		if c.said[calls[i]] {
			c.wrong("duplicate", "%v was recorded by two sessions", calls[i])
		}
		c.said[calls[i]] = true
		c.Calls[r.Function]++
		c.Kinds[r.Kind]++
		at = i + 1
	}
	for _, call := range calls {
		switch {
		case c.said[call] || c.GOT && call.InPlugin:
		case tr.UnknownNS != 0 && call.AfterNS >= tr.UnknownNS:
			left.cut++
		case span.contains(call):
			left.add(call)
		case call.AfterNS > tr.Session.ArmedNS-settleNS && call.BeforeNS < tr.Session.DetachedNS+settleNS:
			left.cut++
		}
	}
}

// find returns the next call with the record's function and times; of several, one with the same
// values. -1: there is none.
func (c *CallComparison) find(calls []*APICall, from int, r *APIRecord) int {
	found := -1
	for i := from; i < len(calls) && calls[i].BeforeNS <= r.StartNS+stampToleranceNS; i++ {
		if calls[i].Function != r.Function || !calls[i].covers(r) {
			continue
		}
		if c.differ(calls[i], r) == "" {
			return i
		}
		if found < 0 {
			found = i
		}
	}
	return found
}

// same reports what differs between call and record.
func (c *CallComparison) same(call *APICall, r *APIRecord) {
	if kind, what, differs := strings.Cut(c.differ(call, r), ": "); differs {
		c.wrong(kind, "%v is recorded as %+v: %s", call, *r, what)
	}
}

// differ returns what differs between a call and a record; "": nothing.
func (c *CallComparison) differ(call *APICall, r *APIRecord) string {
	f := c.functions[call.Function]
	if f.kind != r.Kind {
		return "kind: of " + f.kind
	}
	if bits := 8 * call.ResultBytes; low(call.Result, bits) != low(r.Result, bits) {
		return "result: another"
	}
	if len(r.Words) < call.Count {
		return fmt.Sprintf("arguments: %d of %d", len(r.Words), call.Count)
	}
	written := f.writes(call)
	if written != (r.Flags&1 != 0) {
		return fmt.Sprintf("out: argument %d was written: %t", f.out, written)
	}
	for i := range call.Count {
		want, bits := call.Arguments[i], 8*int(call.Bytes[i])
		if written && i == f.out {
			if call.ContentOf != i {
				continue
			}
			want, bits = call.Content, 64
		}
		if low(want, bits) != low(r.Words[i], bits) {
			return fmt.Sprintf("arguments: %d is %#x", i, r.Words[i])
		}
	}
	return ""
}

// writes reports whether the record has what the call has written, in place of an argument.
func (f apiFunction) writes(call *APICall) bool {
	return f.out >= 0 && f.out < call.Count && int32(call.Result) == 0 && call.Arguments[f.out] != 0
}

// low returns the lower bits of a register: the others may have anything.
func low(word uint64, bits int) uint64 { return word & (1<<bits - 1) }

// accounts checks a session's own counts: exactly the calls that it owns up to as lost are missing,
// or were the runtimes' own.
func (c *CallComparison) accounts(tr *APITrace, rows map[string]int64, left map[string]*unrecorded) {
	for kind, a := range tr.Accounts {
		c.Lost += a.Unexplained
		if a.Timed != rows[kind] || a.Untimed != 0 || a.Begun != a.Timed+a.Unexplained {
			c.wrong("account", "%s: %+v, and %d rows", kind, a, rows[kind])
		}
		u := left[kind]
		c.Missing[kind] += int(u.missing)
		if a.Unexplained < u.missing {
			c.wrong("missing", "%s: %d calls, such as %v, and %d are lost", kind, u.missing, u.example, a.Unexplained)
		}
		if !isHSA(kind) && a.Unexplained > u.missing+u.cut {
			c.wrong("lost", "%s: %d calls, and only %d are missing, %d at the session's ends", kind, a.Unexplained, u.missing, u.cut)
		}
	}
	for kind := range rows {
		if _, has := tr.Accounts[kind]; !has {
			c.wrong("account", "%s has %d rows and no account", kind, rows[kind])
		}
	}
}

// Finish logs the figures.
func (c *CallComparison) Finish() {
	c.t.Helper()
	c.count()
	var total int
	never := map[string]bool{}
	for _, calls := range c.log {
		total += len(calls)
		for _, call := range calls {
			if c.Calls[call.Function] == 0 {
				never[call.Function] = true
			}
		}
	}
	c.t.Logf("%d calls of %d functions are recorded, of %d; %d were the runtimes' own; %d lost; never recorded: %v", sum(c.Calls), len(c.Calls), total,
		c.Internal, c.Lost, slices.Sorted(maps.Keys(never)))
}

// MustHaveRecorded fails unless each of the functions was recorded so often.
func (c *CallComparison) MustHaveRecorded(least int, functions ...string) {
	c.t.Helper()
	for _, f := range functions {
		if c.Calls[f] < least {
			c.t.Errorf("%s: only %d calls recorded, expected at least %d", f, c.Calls[f], least)
		}
	}
}

// Perfect returns what a session without a fault would have recorded.
func (c *CallComparison) Perfect(fromNS, untilNS int64) *APITrace {
	tr := &APITrace{Session: Session{ArmedNS: fromNS, DetachedNS: untilNS}, Accounts: map[string]KindAccount{}}
	for _, kind := range apiKinds {
		tr.Accounts[kind] = KindAccount{}
	}
	lanes, _ := c.lanes(tr)
	for lane, calls := range lanes {
		for _, call := range calls {
			if call.BeforeNS < fromNS || call.AfterNS > untilNS {
				continue
			}
			r := APIRecord{
				Kind: lane.kind, Function: call.Function, TID: call.TID, StartNS: call.BeforeNS, EndNS: call.AfterNS,
				Result: call.Result, Words: slices.Clone(call.Arguments[:call.Count]),
			}
			if f := c.functions[call.Function]; f.writes(call) {
				r.Flags, r.Words[f.out] = 1, call.Content
			}
			tr.Calls = append(tr.Calls, r)
		}
	}
	tr.Settle()
	return tr
}

// Settle puts the calls in their order, and makes the accounts agree with them.
func (tr *APITrace) Settle() {
	slices.SortStableFunc(tr.Calls, func(a, b APIRecord) int { return cmp.Compare(a.StartNS, b.StartNS) })
	for kind, a := range tr.Accounts {
		a.Timed = 0
		for i := range tr.Calls {
			if tr.Calls[i].Kind == kind {
				a.Timed++
			}
		}
		a.Begun = a.Timed + a.Unexplained
		tr.Accounts[kind] = a
	}
}
