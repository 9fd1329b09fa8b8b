package tracetest

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// LateGPUs is the number of GPUs in the trace of WriteLate, LateGPU the one whose thread is late. The thread of
// GPU n is LateThread + n.
const (
	LateGPUs   = 8
	LateGPU    = 5
	LateThread = 101
)

// WriteLate writes a trace of a process with a thread for each of its GPUs: in each step of 10 ms, of which the
// kernels take 4 ms, all but one wait at a barrier until the late one, which runs, wakes them.
func WriteLate(t testing.TB) (path string) {
	t.Helper()
	place, err := tracedb.Check(filepath.Join(t.TempDir(), "t.db"), 1)
	if err != nil {
		t.Fatal(err)
	}
	db, err := tracedb.Create(place)
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Begin(tracedb.SessionInfo{PID: 100, Command: "ranks", Host: "node", Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	const base, step, steps, ms = 1_000_000_000, 10_000_000, 20, 1_000_000
	errs := []error{s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "_Z4gemmILi1EEvPf.kd"})}
	for gpu := range uint32(LateGPUs) {
		errs = append(errs, s.Agent(tracedb.Agent{ID: gpu + 1, GPU: gpu, Name: "gfx942", BDF: 0x300 + gpu<<8}),
			s.Queue(tracedb.Queue{ID: gpu + 1, Agent: gpu + 1, HSAID: uint64(gpu)}))
		var batch []tracedb.Dispatch
		for i := range uint64(steps) {
			at := base + i*step
			batch = append(batch, tracedb.Dispatch{Queue: gpu + 1, Launch: 1, TID: LateThread + gpu, Index: i, SubmitNS: at, StartNS: at + 10_000, EndNS: at + 4*ms})
		}
		errs = append(errs, s.Dispatches(batch))
	}
	errs = append(errs, s.Kind(1, func(k tracedb.KindWriter) error {
		w := &threadWriter{KindWriter: k}
		w.add(cpuWindows, base, base+step*steps, w.is(w.String("bpf")), 999, 0, 1, 0)
		barrier := w.stack(tracedb.Null, cputrace.Native, "Rank::barrier", "/app/ranks", 0)
		load := w.stack(tracedb.Null, cputrace.Native, "Rank::load_batch", "/app/ranks", 0)
		late := w.is(w.Thread(LateThread + LateGPU))
		for i := range int64(steps) {
			at := base + i*step
			for n := range int64(9) {
				w.add(cpuSamples, late, at+n*ms+ms/2, cputrace.CPUClock, cputrace.RanUser, load)
			}
			for gpu := range int64(LateGPUs) {
				if gpu != LateGPU {
					w.add(cpuWaits, w.is(w.Thread(uint32(LateThread+gpu))), at+ms, at+99*ms/10, at+99*ms/10, 1, 202, late, barrier)
				}
			}
		}
		return w.err
	}), s.End(tracedb.End{Reason: "detached", ArmedNS: base, DetachedNS: base + step*steps}), db.Close())
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return place.Path
}
