package tracetest

import (
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Rows of a recording of threads.
var (
	cpuWindows = &tracedb.Table{Name: "rtl_cpu_window", Columns: []string{"begun_ns", "ended_ns", "method_id", "cpu_hz", "wall_hz", "scheduling", "least_wait_ns"}}
	cpuLosses  = &tracedb.Table{Name: "rtl_cpu_loss", Columns: []string{"cause_id", "events"}}
	cpuFrames  = &tracedb.Table{Name: "rtl_cpu_frame", Columns: []string{"kind", "name_id", "file_id", "line"}}
	cpuStacks  = &tracedb.Table{Name: "rtl_cpu_stack", Columns: []string{"parent_id", "frame_id", "cut"}}
	cpuSamples = &tracedb.Table{Name: "rtl_cpu_sample", Columns: []string{"thread_id", "time_ns", "clock", "state", "stack_id"}}
	cpuWaits   = &tracedb.Table{Name: "rtl_cpu_wait", Columns: []string{
		"thread_id", "out_ns", "woken_ns", "in_ns", "state", "syscall", "waker_thread_id", "stack_id",
	}}
)

// EngineThread and TokenizerThread are the threads in the trace of WriteThreads.
const (
	EngineThread    = 2983
	TokenizerThread = 2982
)

// WriteThreads writes a trace of a process with samples and waits of its threads: a tokenizer, and an engine that
// launches a kernel in each of its steps of 10 ms. The kernel takes 4 ms. From 0.1 to 6 ms the engine waits for
// the tokenizer, up to 9 ms it runs, up to 9.9 ms it sleeps or, in odd steps, waits for the GIL, which the
// tokenizer has.
func WriteThreads(t testing.TB) (path string) {
	t.Helper()
	return WriteThreadSteps(t, 20)
}

// WriteThreadSteps is WriteThreads with this many steps.
func WriteThreadSteps(t testing.TB, steps int64) (path string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	place, err := tracedb.Check(filepath.Join(t.TempDir(), "t.db"), 1)
	must(err)
	db, err := tracedb.Create(place)
	must(err)
	s, err := db.Begin(tracedb.SessionInfo{
		PID: 2981, Command: "engine", Host: "node", Generation: 1,
		ThreadName: func(tid uint32) string {
			return map[uint32]string{EngineThread: "engine", TokenizerThread: "tokenizer"}[tid]
		},
	})
	must(err)
	must(s.Agent(tracedb.Agent{ID: 1, Name: "gfx942", BDF: 0x300}))
	must(s.Queue(tracedb.Queue{ID: 1, Agent: 1, HSAID: 3}))
	must(s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "_Z4gemmILi1EEvPf.kd"}))
	const base, step = 1_000_000_000, 10_000_000
	var batch []tracedb.Dispatch
	end := uint64(base + step*steps)
	for i := range uint64(steps) {
		at := base + i*step
		batch = append(batch, tracedb.Dispatch{Queue: 1, Launch: 1, TID: EngineThread, Index: i, SubmitNS: at, StartNS: at + 20_000, EndNS: at + 4_020_000})
	}
	must(s.Window(tracedb.Window{Queue: 1, OpenNS: base, Closed: true, CloseNS: end, EndIndex: uint64(steps), Dispatches: uint64(steps)}))
	must(s.Dispatches(batch))
	must(s.Kind(1, func(w tracedb.KindWriter) error { return writeThreads(w, base, step, steps) }))
	must(s.Counters([]tracedb.Counter{{Name: tracedb.CounterQueuesSeen, Value: 1}}))
	must(s.End(tracedb.End{Reason: "detached", ArmedNS: base, DetachedNS: end, Coverage: []tracedb.Coverage{
		{Queue: 1, Windows: 1, Dispatches: uint64(steps), Timed: uint64(steps)},
	}}))
	must(db.Close())
	return place.Path
}

// threadWriter writes the rows, and holds the first error.
type threadWriter struct {
	tracedb.KindWriter
	err error
}

func (w *threadWriter) is(row int64, err error) int64 {
	if w.err == nil {
		w.err = err
	}
	return row
}

func (w *threadWriter) add(t *tracedb.Table, values ...int64) {
	if err := w.Add(t, values...); w.err == nil {
		w.err = err
	}
}

// stack adds frames to a stack, from the outermost on; a line of 0 is of a native frame.
func (w *threadWriter) stack(parent int64, kind int64, name, file string, line int64) int64 {
	if line == 0 {
		line = tracedb.Null
	}
	frame := w.is(w.Define(cpuFrames, kind, w.is(w.String(name)), w.is(w.String(file)), line))
	return w.is(w.Define(cpuStacks, parent, frame, 0))
}

func writeThreads(k tracedb.KindWriter, base, step, steps int64) error {
	w := &threadWriter{KindWriter: k}
	w.add(cpuWindows, base, base+step*steps, w.is(w.String("bpf")), 999, 0, 1, 0)
	w.add(cpuLosses, w.is(w.String("limit of stacks: stacks")), 3)
	run := w.stack(tracedb.Null, cputrace.Python, "Engine.step", "/app/engine.py", 90)
	queue := w.stack(run, cputrace.Python, "Engine.wait_for_tokens", "/app/engine.py", 77)
	condition := w.stack(queue, cputrace.Python, "Condition.wait", "/usr/lib/python3.11/threading.py", 327)
	wait := w.stack(condition, cputrace.Native, "pthread_cond_wait", "/usr/lib/x86_64-linux-gnu/libc.so.6", 0)
	schedule := w.stack(run, cputrace.Python, "Scheduler.schedule", "/app/engine.py", 48)
	poll := w.stack(w.stack(run, cputrace.Python, "Engine.poll", "/app/engine.py", 84), cputrace.Native, "clock_nanosleep", "/usr/lib/x86_64-linux-gnu/libc.so.6", 0)
	gil := w.stack(w.stack(schedule, cputrace.Native, "PyEval_RestoreThread", "/usr/bin/python3.11", 0), cputrace.Native, "take_gil", "/usr/bin/python3.11", 0)
	work := w.stack(w.stack(tracedb.Null, cputrace.Python, "Tokenizer.detokenize", "/app/engine.py", 61), cputrace.Native, "cwork", "/app/libcwork.so", 0)
	encode := w.stack(tracedb.Null, cputrace.Python, "Tokenizer.encode", "/app/engine.py", 55)
	engine, tokenizer := w.is(w.Thread(EngineThread)), w.is(w.Thread(TokenizerThread))
	const ms, futex, sleep, none = 1_000_000, 202, 230, tracedb.Null
	for i := range steps {
		at := base + i*step
		for n := range int64(5) {
			w.add(cpuSamples, tokenizer, at+n*ms+ms/2, cputrace.CPUClock, cputrace.RanUser, work)
		}
		w.add(cpuWaits, engine, at+ms/10, at+59*ms/10, at+6*ms, 1, futex, tokenizer, wait)
		for n := range int64(3) {
			w.add(cpuSamples, engine, at+6*ms+n*ms+ms/2, cputrace.CPUClock, cputrace.RanUser, schedule)
		}
		if i%2 == 0 {
			w.add(cpuWaits, engine, at+9*ms, at+99*ms/10, at+99*ms/10, 1, sleep, tokenizer, poll)
			w.add(cpuWaits, tokenizer, at+59*ms/10, at+step, at+step, 1, futex, none, none)
			continue
		}
		w.add(cpuWaits, tokenizer, at+59*ms/10, at+9*ms, at+9*ms, 1, futex, none, none)
		w.add(cpuSamples, tokenizer, at+93*ms/10, cputrace.CPUClock, cputrace.RanUser, encode)
		w.add(cpuWaits, engine, at+9*ms, at+95*ms/10, at+95*ms/10, 1, futex, none, gil)
		w.add(cpuWaits, engine, at+96*ms/10, at+99*ms/10, at+99*ms/10, 1, futex, tokenizer, gil)
	}
	return w.err
}
