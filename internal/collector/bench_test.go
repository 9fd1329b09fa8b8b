package collector

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// BenchmarkRingToTrace is the whole way of a dispatch through the tool, one
// full ring of 64 MiB at a time.
func BenchmarkRingToTrace(b *testing.B) {
	const ringBytes, dispatches = 64 << 20, 1_000_000
	for b.Loop() {
		b.StopTimer()
		p := ringtest.NewProducer(b, ringBytes)
		define(p)
		for i := range uint64(dispatches) {
			start := 1<<50 + i*4000
			ringtest.Put(p, ring.Dispatch{
				Queue: 1, Launch: 1, Index: i, TID: 100 + uint32(i/64%8),
				SubmitNS: start - 6000 - i%50_000, StartNS: start, EndNS: start + 9000 + i%5000,
			})
		}
		p.End(ring.EndRecord{})
		reader, err := ring.Open(p.File, 1, ringBytes)
		if err != nil {
			b.Fatal(err)
		}
		db, err := tracedb.Create(tracedb.Place{Path: filepath.Join(b.TempDir(), "trace.db")})
		if err != nil {
			b.Fatal(err)
		}
		session, err := db.Begin(tracedb.SessionInfo{})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		result, err := New(reader, session, nil).Run(context.Background(), nil)
		if err != nil || result.Timed != dispatches {
			b.Fatalf("%v, %+v", err, result)
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
		if err := reader.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*dispatches/b.Elapsed().Seconds(), "dispatches/s")
}
