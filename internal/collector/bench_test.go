package collector

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// BenchmarkRingToTrace is the whole way of a dispatch through the tool, one
// full ring of 64 MiB at a time.
func BenchmarkRingToTrace(b *testing.B) {
	everything, err := filter.New([]filter.Setting{{Name: filter.ExcludeRegex, Value: "."}})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("kept", func(b *testing.B) { ringToTrace(b, nil, 9000) })
	b.Run("filtered", func(b *testing.B) { ringToTrace(b, everything, 3000) })
	b.Run("filtered-touching", func(b *testing.B) { ringToTrace(b, everything, 4000) })
}

// ringToTrace measures with kernels that begin every 4 µs and last durationNS, or up to 5 µs longer if that is more
// than 4 µs.
func ringToTrace(b *testing.B, f *filter.Filter, durationNS uint64) {
	const ringBytes, dispatches = 64 << 20, 1_000_000
	for b.Loop() {
		b.StopTimer()
		p := ringtest.NewProducer(b, ringBytes)
		define(p)
		for i := range uint64(dispatches) {
			start, duration := 1<<50+i*4000, durationNS
			if duration > 4000 {
				duration += i % 5000
			}
			ringtest.Put(p, ring.Dispatch{
				Queue: 1, Launch: 1, Index: i, TID: 100 + uint32(i/64%8),
				SubmitNS: start - 6000 - i%50_000, StartNS: start, EndNS: start + duration,
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
		c := New(reader, session, nil)
		c.Filter(f, func() uint64 { return 1 })
		b.StartTimer()
		result, err := c.Run(context.Background(), nil)
		if err != nil || f == nil && result.Timed != dispatches {
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
