package truth

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

// lossless are the flags of recordings of HIP's calls that lose nothing.
var lossless = []string{"--hip-runtime-trace", "--buffer-policy", "lossless"}

// graphScene is a recording of the workload graphs, and its log.
type graphScene struct {
	trace   string
	log     map[int64][]*harness.APICall
	fromNS  map[int64]int64 // the recorded calls of each thread
	untilNS map[int64]int64
}

// recordGraphs records the workload graphs, attached when its graphs exist, and checks its dispatches.
func recordGraphs(t *testing.T, args ...string) *graphScene {
	t.Helper()
	needCalls(t)
	p := harness.Start(t, harness.Graphs(args...))
	run := p.RecordLast(t, 600*time.Millisecond, 3000, lossless...)
	check(t, p, nil, run).MustHaveRecorded(300)
	s := &graphScene{trace: run.Trace, log: p.APICalls(t), fromNS: map[int64]int64{}, untilNS: map[int64]int64{}}
	tr := harness.ReadAPICalls(t, run.Trace)
	if a := tr.Accounts["hip-runtime-api"]; a.Unexplained > 0 {
		t.Skipf("%d calls are lost: the comparison needs all", a.Unexplained)
	}
	for _, c := range tr.Calls {
		if from, known := s.fromNS[c.TID]; !known || c.StartNS < from {
			s.fromNS[c.TID] = c.StartNS
		}
		s.untilNS[c.TID] = max(s.untilNS[c.TID], c.EndNS)
	}
	return s
}

// recorded reports whether a call must have been recorded: it lies between recorded ones of its thread.
func (s *graphScene) recorded(c *harness.APICall) bool {
	from, known := s.fromNS[c.TID]
	return known && c.BeforeNS >= from && c.AfterNS != 0 && c.AfterNS <= s.untilNS[c.TID]
}

// begun returns the logged call, of one of the functions, that is recorded to begin at ns; nil: none. The program reads the clock, and
// then the wrapper reads the counter: a call that begins after ns is it, if it is by less than what turning one into the other errs by.
func (s *graphScene) begun(tid, ns int64, functions ...string) *harness.APICall {
	const errNS = 1000
	if c := s.at(tid, ns); c != nil && slices.Contains(functions, c.Function) {
		return c
	}
	of := s.log[tid]
	n, _ := slices.BinarySearchFunc(of, ns, func(c *harness.APICall, ns int64) int { return cmp.Compare(c.BeforeNS, ns) })
	for _, c := range of[n:] {
		if c.BeforeNS > ns+errNS {
			break
		}
		if slices.Contains(functions, c.Function) {
			return c
		}
	}
	return nil
}

// at returns the logged call of a thread in whose time ns is; nil: none.
func (s *graphScene) at(tid, ns int64) *harness.APICall {
	of := s.log[tid]
	n, _ := slices.BinarySearchFunc(of, ns, func(c *harness.APICall, ns int64) int { return cmp.Compare(c.BeforeNS, ns+1) })
	if n == 0 || of[n-1].AfterNS < ns {
		return nil
	}
	return of[n-1]
}

// all returns the logged calls of a function.
func (s *graphScene) all(function string) (calls []*harness.APICall) {
	for _, of := range s.log {
		for _, c := range of {
			if c.Function == function {
				calls = append(calls, c)
			}
		}
	}
	return calls
}

// streamArgument is which argument of the logged functions is the stream.
var streamArgument = map[string]int{
	"hipModuleLaunchKernel": 8, "hipMemcpyAsync": 4, "hipGraphLaunch": 1, "hipEventRecord": 1, "hipStreamWaitEvent": 0, "hipStreamSynchronize": 0,
}

// Each kernel has the stream of the program's call in whose time it was submitted.
func TestStreams(t *testing.T) {
	t.Parallel()
	s := recordGraphs(t)
	seen, calls := map[uint64]int{}, map[string]int{}
	for _, k := range harness.ReadKernelStreams(t, s.trace) {
		c := s.at(k.TID, k.SubmitNS)
		switch {
		case c == nil:
			if k.Stream.Valid {
				t.Fatalf("%+v: submitted in no call", k)
			}
		case k.Stream.Valid:
			if want := c.Arguments[streamArgument[c.Function]]; uint64(k.Stream.Int64) != want {
				t.Fatalf("%+v: the stream is %#x, %v", k, want, c)
			}
			seen[uint64(k.Stream.Int64)]++
			calls[c.Function]++
		case s.recorded(c):
			t.Fatalf("%+v: it has no stream, submitted in %v", k, c)
		}
	}
	if len(seen) != 1+2*3 || seen[0] == 0 {
		t.Errorf("kernels by stream: %v", seen)
	}
	for _, function := range []string{"hipModuleLaunchKernel", "hipMemcpyAsync", "hipGraphLaunch"} {
		if calls[function] < 20 {
			t.Errorf("kernels by function: %v", calls)
		}
	}
}

// Each wait for an event is a wait for the stream in which the event was recorded last, by any thread.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := recordGraphs(t)
	records := s.all("hipEventRecord")
	waits, across := map[string]int{}, 0
	for _, d := range harness.ReadDependencies(t, s.trace) {
		w := s.begun(d.TID, d.StartNS, "hipStreamWaitEvent", "hipEventSynchronize", "hipStreamSynchronize")
		if w == nil {
			t.Fatalf("%+v: no such call", d)
		}
		waits[w.Function]++
		if isStream := w.Function == "hipStreamWaitEvent"; isStream != d.Stream.Valid || isStream && uint64(d.Stream.Int64) != w.Arguments[0] {
			t.Fatalf("%+v: another stream waits, %v", d, w)
		}
		if w.Function == "hipStreamSynchronize" {
			if uint64(d.ForStream.Int64) != w.Arguments[0] {
				t.Fatalf("%+v: it waits for another stream, %v", d, w)
			}
			continue
		}
		if r := s.lastRecord(t, &d, w, records); r != nil && r.TID != w.TID {
			across++
		}
	}
	for _, function := range []string{"hipStreamWaitEvent", "hipEventSynchronize", "hipStreamSynchronize"} {
		if waits[function] < 10 {
			t.Errorf("waits by function: %v", waits)
		}
	}
	if across < 10 {
		t.Errorf("%d waits for another thread's record", across)
	}
	for function, n := range waits {
		must := 0
		for _, c := range s.all(function) {
			if s.recorded(c) {
				must++
			}
		}
		if n < must {
			t.Errorf("%s: %d of %d waits", function, n, must)
		}
	}
}

// lastRecord checks the record of a dependency by event, and returns it; nil: none was recorded.
func (s *graphScene) lastRecord(t *testing.T, d *harness.Dependency, w *harness.APICall, records []*harness.APICall) *harness.APICall {
	t.Helper()
	event := w.Arguments[0]
	if w.Function == "hipStreamWaitEvent" {
		event = w.Arguments[1]
	}
	var r *harness.APICall
	if d.RecordTID != 0 {
		r = s.begun(d.RecordTID, d.RecordNS, "hipEventRecord")
		if r == nil || r.Arguments[0] != event || r.BeforeNS > w.AfterNS || uint64(d.ForStream.Int64) != r.Arguments[1] {
			t.Fatalf("%+v: it waits for %v, %v", d, r, w)
		}
	}
	for _, other := range records {
		if other.Arguments[0] == event && s.recorded(other) && other.AfterNS < w.BeforeNS && (r == nil || other.BeforeNS > r.AfterNS) {
			t.Fatalf("%+v: %v is later, before %v", d, other, w)
		}
	}
	return r
}

// executable is a graph in the log, in the time from its instantiation on.
type executable struct {
	*harness.APICall          // the entry "graph"
	graph            int64    // in the trace; 0: not known yet
	replays          int64    // its recorded ones, so far
	nodes            []string // as in a graph with one branch
	branches         int
}

var decodeKernels = [...]string{"rotary_embedding_kernel", "topk_gating_softmax_kernel", "sample_token_kernel"}

// executables returns the graphs in the log, by handle and in order.
func (s *graphScene) executables() map[uint64][]*executable {
	all := map[uint64][]*executable{}
	for _, c := range s.all("graph") {
		e := &executable{APICall: c, branches: int(c.Arguments[3])}
		for range e.branches {
			for i := range c.Arguments[2] {
				e.nodes = append(e.nodes, decodeKernels[(c.Arguments[1]+i)%3])
			}
		}
		if e.branches > 1 {
			e.nodes = append(e.nodes, decodeKernels[c.Arguments[1]%3])
		}
		all[c.Arguments[0]] = append(all[c.Arguments[0]], e)
	}
	for _, of := range all {
		slices.SortFunc(of, func(a, b *executable) int { return cmp.Compare(a.BeforeNS, b.BeforeNS) })
	}
	return all
}

// Each launch of a graph is a replay with the graph's kernels, numbered in the same way each time.
func TestGraphs(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"one branch": nil, "instantiated again": {"--renew", "5"}, "branches": {"--branches", "3", "--nodes", "2"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			s := recordGraphs(t, args...)
			s.compareReplays(t)
		})
	}
}

func (s *graphScene) compareReplays(t *testing.T) {
	t.Helper()
	all := s.executables()
	fromNS, untilNS := harness.AllQueues(t, s.trace)
	replays := harness.ReadReplays(t, s.trace)
	whole, again, missing, graphs := 0, 0, 0, map[int64]bool{}
	for i := range replays {
		r := &replays[i]
		c := s.begun(r.TID, r.StartNS, "hipGraphLaunch")
		if c == nil || c.Arguments[1] != r.Stream {
			t.Fatalf("%+v: launched by %v", r, c)
		}
		of := all[c.Arguments[0]]
		n, _ := slices.BinarySearchFunc(of, c.BeforeNS, func(e *executable, ns int64) int { return cmp.Compare(e.BeforeNS, ns) })
		e := of[n-1]
		if e.replays++; e.graph == 0 && !graphs[r.Graph] {
			e.graph = r.Graph
			graphs[r.Graph] = true
		}
		if r.Graph != e.graph || r.Number != e.replays {
			t.Fatalf("%+v: it is replay %d of graph %d", r, e.replays, e.graph)
		}
		if r.StartNS < fromNS || r.EndNS > untilNS { // its queue may not have been recorded
			continue
		}
		whole++
		if s.recorded(e.APICall) {
			again++
		}
		missing += s.compareNodes(t, r, e)
	}
	if untimed := harness.UntimedPackets(t, s.trace); missing > untimed {
		t.Errorf("%d kernels of graphs are missing, %d packets are untimed", missing, untimed)
	}
	must := 0
	for _, c := range s.all("hipGraphLaunch") {
		if s.recorded(c) {
			must++
		}
	}
	if len(replays) < must || whole < 50 {
		t.Errorf("%d replays of %d, %d with all queues recorded", len(replays), must, whole)
	}
	t.Logf("%d replays of %d graphs, %d with all queues recorded, %d of graphs that were instantiated while recording", len(replays), len(graphs), whole, again)
}

// compareNodes checks the kernels of a replay, and returns how many are missing: those without times.
func (s *graphScene) compareNodes(t *testing.T, r *harness.Replay, e *executable) (missing int) {
	t.Helper()
	got, want := slices.Clone(r.Nodes), slices.Clone(e.nodes)
	if e.branches > 1 { // their order is HIP's
		order := func(name string) int {
			return slices.IndexFunc(decodeKernels[:], func(k string) bool { return strings.Contains(name, k) })
		}
		for _, names := range [][]string{got, want} {
			slices.SortFunc(names, func(a, b string) int { return cmp.Compare(order(a), order(b)) })
		}
	}
	for _, name := range want {
		if len(got) > 0 && strings.Contains(got[0], name) {
			got = got[1:]
		} else {
			missing++
		}
	}
	if len(got) > 0 || int(r.Kernels) != len(r.Nodes) {
		t.Fatalf("%+v: its kernels are %q", r, e.nodes)
	}
	if e.branches == 1 && missing == 0 && !r.Same {
		t.Fatalf("%+v: it is said to differ", r)
	}
	return missing
}
