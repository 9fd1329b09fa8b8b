// Package tracetest makes large traces for tests and benchmarks of what reads them.
package tracetest

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

const day = 86400_000_000_000 // ns

// ArmedNS is the begin of a trace's window; a dispatch starts every 4 µs after it.
const ArmedNS = 30 * day

// Order returns which of n dispatches is the i-th row.
type Order func(i, n int) int

func InOrder(i, _ int) int { return i }

// Scattered puts each at another place.
func Scattered(i, n int) int { return int(uint64(i) * 7_368_787 % uint64(n)) } // a prime

// LastIsLate puts the last row into the middle.
func LastIsLate(i, n int) int {
	if i == n-1 {
		return n / 2
	}
	return i
}

// Write makes a trace in a folder of the test's, and says where it is.
func Write(t testing.TB, n int, order Order) (path string) {
	t.Helper()
	return write(t, n, order, nothing)
}

func write(t testing.TB, n int, order Order, more func(s *tracedb.Session, n int) error) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "trace.db")
	must(t, makeTrace(path, n, order, more))
	return path
}

func nothing(*tracedb.Session, int) error { return nil }

// Make makes a trace of n dispatches: 8 queues of 2 GPUs, 300 kernels, 16 threads,
// some microseconds each, overlapping.
func Make(path string, n int, order Order) error { return makeTrace(path, n, order, nothing) }

func makeTrace(path string, n int, order Order, more func(s *tracedb.Session, n int) error) error {
	place, err := tracedb.Check(path, 1)
	if err != nil {
		return err
	}
	db, err := tracedb.Create(place)
	if err != nil {
		return err
	}
	return errors.Join(fill(db, n, order, more), db.Close())
}

func fill(db *tracedb.DB, n int, order Order, more func(s *tracedb.Session, n int) error) error {
	s, err := db.Begin(tracedb.SessionInfo{PID: 41220, Command: "server", Host: "node", Generation: 1})
	if err != nil {
		return err
	}
	if err := describe(s); err != nil {
		return err
	}
	batch := make([]tracedb.Dispatch, 4096)
	for done := 0; done < n; done += len(batch) {
		batch = batch[:min(len(batch), n-done)]
		for i := range batch {
			batch[i] = dispatch(uint64(order(done+i, n)))
		}
		if err := s.Dispatches(batch); err != nil {
			return err
		}
	}
	if err := more(s, n); err != nil {
		return err
	}
	return s.End(tracedb.End{Reason: "detached", ArmedNS: ArmedNS, DetachedNS: ArmedNS + uint64(n)*4000 + day})
}

func describe(s *tracedb.Session) (err error) {
	for id := range uint32(2) {
		err = errors.Join(err, s.Agent(tracedb.Agent{ID: id + 1, GPU: id, Name: "gfx90a", BDF: id, DriverNode: id + 1}))
	}
	for id := range uint32(8) {
		err = errors.Join(err, s.Queue(tracedb.Queue{ID: id + 1, Agent: id%2 + 1, HSAID: uint64(id)}))
	}
	for id := range uint32(300) {
		symbol := fmt.Sprintf("void vllm::paged_attention_v2_kernel<__hip_bfloat16, unsigned char, %d, 16, 128>(float*, float const*)", id)
		err = errors.Join(err, s.Launch(tracedb.Launch{ID: id + 1, Agent: 1, Symbol: symbol, Grid: [3]uint32{256 * id, 1, 1}}))
	}
	return err
}

func dispatch(at uint64) tracedb.Dispatch {
	start := ArmedNS + at*4000 - at%7*5000
	return tracedb.Dispatch{
		StartNS: start, EndNS: start + 9000 + at%5000, SubmitNS: start - 6000 - at%11*3000, Index: at / 8,
		Queue: uint32(at%8) + 1, Launch: uint32(at%300) + 1, TID: 4000 + uint32(at/64%16),
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
