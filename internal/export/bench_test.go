package export

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/tracetest"
)

// BenchmarkExport writes each format of a trace of RTL_EXPORT_DISPATCHES (default
// 1,000,000), and tells the rate, the size, the processor's time and the most memory:
//
//	RTL_EXPORT_DISPATCHES=10000000 go test -run '^$' -bench Export -benchtime 1x ./internal/export
func BenchmarkExport(b *testing.B) {
	n := tracetest.Count(b, "RTL_EXPORT_DISPATCHES")
	benchmarkExport(b, Formats[:], tracetest.Write(b, n, tracetest.InOrder), n)
}

// BenchmarkExportScattered does so for the formats that sort, rows in no order.
func BenchmarkExportScattered(b *testing.B) {
	n := tracetest.Count(b, "RTL_EXPORT_DISPATCHES")
	benchmarkExport(b, Formats[:2], tracetest.Write(b, n, tracetest.Scattered), n)
}

// BenchmarkExportWithCalls does so for a trace with as many calls of HIP, each of which submits a dispatch.
func BenchmarkExportWithCalls(b *testing.B) {
	n := tracetest.Count(b, "RTL_EXPORT_DISPATCHES")
	benchmarkExport(b, Formats[:], tracetest.WriteWithCalls(b, n), n)
}

func benchmarkExport(b *testing.B, formats []Format, path string, n int) {
	for _, f := range formats {
		if len(f.kinds) > 0 {
			continue // no dispatches are in it
		}
		b.Run(f.Name, func(b *testing.B) { benchmarkFormat(b, f, path, n) })
	}
}

func benchmarkFormat(b *testing.B, f Format, path string, n int) {
	meter, began := tracetest.Begin(b), time.Now()
	for i := range b.N {
		output := filepath.Join(b.TempDir(), fmt.Sprint(i))
		r, err := f.Write(context.Background(), path, output, 0)
		must(b, err)
		if r.Dispatches != int64(n) {
			b.Fatalf("%d of %d dispatches", r.Dispatches, n)
		}
		b.ReportMetric(float64(r.Bytes)/float64(n), "bytes/dispatch")
		must(b, os.Remove(output))
	}
	b.ReportMetric(float64(n*b.N)/time.Since(began).Seconds(), "dispatches/s")
	meter.Report()
}
