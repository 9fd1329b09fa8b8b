package graphs_test

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/graphs"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const (
	threads = 4
	stream  = 0x7f00000000a0
)

// trace writes a trace of n calls with two kernels each, in the order in which they end. If late is true, a kernel
// of the first call ends last.
func trace(t *testing.T, n int, late bool) *traceread.Trace {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.db")
	db, err := tracedb.Create(tracedb.Place{Path: path})
	must(t, err)
	s, err := db.Begin(tracedb.SessionInfo{PID: 42})
	must(t, err, s.Agent(tracedb.Agent{ID: 1}), s.Queue(tracedb.Queue{ID: 1, Agent: 1}), s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "k"}))
	random := rand.New(rand.NewPCG(7, 8))
	number, known := function.Named("hipMemcpyAsync")
	if !known {
		t.Fatal("no such function")
	}
	var batch []calls.Call
	var dispatches []tracedb.Dispatch
	for i := range n {
		at, tid := uint64(1_000_000+i*100), uint32(1+i%threads)
		batch = append(batch, calls.Call{StartNS: at, EndNS: at + 150, TID: tid, Function: uint16(number), Registers: [6]uint64{1, 2, 3, 4, stream}})
		for k := range uint64(2) {
			start := at + 1000 + random.Uint64N(5000)
			if late && i == 0 && k == 1 {
				start += uint64(n) * 100
			}
			dispatches = append(dispatches, tracedb.Dispatch{TID: tid, Queue: 1, Launch: 1, SubmitNS: at + 50*k, StartNS: start, EndNS: start + 10})
		}
	}
	slices.SortStableFunc(dispatches, func(a, b tracedb.Dispatch) int { return int(a.EndNS) - int(b.EndNS) })
	id := all.Named("hip-runtime-api").ID
	must(t, s.Kind(n, func(w tracedb.KindWriter) error { return calls.Store(w, id, batch) }),
		s.Dispatches(dispatches), s.End(tracedb.End{}), db.Close())
	tr, err := traceread.Open(t.Context(), path)
	must(t, err)
	t.Cleanup(tr.Close)
	return tr
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// steps is a Visitor that collects.
type steps map[int64][]graphs.Step

func (s steps) visit(_, thread int64, some []graphs.Step) error {
	s[thread] = append(s[thread], some...)
	return nil
}

// check checks that each thread's steps are complete and in order.
func (s steps) check(t *testing.T, n int) {
	t.Helper()
	if len(s) != threads {
		t.Fatalf("%d threads", len(s))
	}
	for id, all := range s {
		if len(all) != 3*n/threads {
			t.Fatalf("thread %d: %d steps of %d calls", id, len(all), n)
		}
		for i, step := range all {
			call := all[i-i%3]
			if (i%3 == 0) != step.IsCall || step.AtNS != call.AtNS+[...]int64{0, 0, 50}[i%3] || step.IsCall && (step.Stream != stream || step.Word != 1 || step.DurationNS != 150) {
				t.Fatalf("thread %d: step %d is %+v", id, i, step)
			}
		}
	}
}

// Sorted in memory and sorted by SQLite, the steps are the same.
func TestSteps(t *testing.T) {
	const n = graphs.Room / 2 // three times as many steps
	tr := trace(t, n, false)
	memory, files := steps{}, steps{}
	must(t, graphs.InMemory(t.Context(), tr, true, memory.visit))
	memory.check(t, n)
	must(t, graphs.InFiles(t.Context(), tr, true, files.visit))
	files.check(t, n)
}

// A kernel that ends much later than it was submitted makes SQLite sort all.
func TestStepsInDisorder(t *testing.T) {
	const n = graphs.Room / 2
	tr := trace(t, n, true)
	if err := graphs.InMemory(t.Context(), tr, true, steps{}.visit); !errors.Is(err, graphs.ErrDisorder) {
		t.Fatal(err)
	}
	var last steps
	begun := 0
	must(t, graphs.Each(t.Context(), tr, true, func() graphs.Visitor {
		last, begun = steps{}, begun+1
		return last.visit
	}))
	last.check(t, n)
	if begun != 2 {
		t.Errorf("it began %d times", begun)
	}
}

// Without calls there are kernels only.
func TestKernels(t *testing.T) {
	got, n := steps{}, 1000
	must(t, graphs.Each(t.Context(), trace(t, n, false), false, func() graphs.Visitor { return got.visit }))
	kernels := 0
	for _, all := range got {
		for _, step := range all {
			if step.IsCall || step.Launch == 0 || step.Name == 0 {
				t.Fatalf("%+v", step)
			}
			kernels++
		}
	}
	if kernels != 2*n {
		t.Errorf("%d kernels", kernels)
	}
}
