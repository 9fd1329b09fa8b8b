package report

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/test/tracetest"
)

// BenchmarkReport reads a trace of RTL_REPORT_DISPATCHES (default 1,000,000), and
// tells the time, the processor's time and the most memory that the process has had:
//
//	RTL_REPORT_DISPATCHES=10000000 go test -run '^$' -bench Report -benchtime 1x ./internal/report
//
// "late" is a trace that SQLite has to sort.
func BenchmarkReport(b *testing.B) {
	n := tracetest.Count(b, "RTL_REPORT_DISPATCHES")
	for _, kind := range []struct {
		name   string
		window *Span
		order  tracetest.Order
	}{
		{"standard", nil, tracetest.InOrder},
		{"window", &Span{FromNS: int64(n) * 1000, UntilNS: int64(n) * 3000}, tracetest.InOrder},
		{"late", nil, tracetest.LastIsLate},
	} {
		b.Run(kind.name, func(b *testing.B) {
			path := tracetest.Write(b, n, kind.order)
			meter := tracetest.Begin(b)
			for b.Loop() {
				r, err := Make(path, Options{Kernels: 10, Window: kind.window})
				must(b, err)
				if kind.window == nil && r.Dispatched() != int64(n) {
					b.Fatalf("%d of %d dispatches", r.Dispatched(), n)
				}
			}
			meter.Report()
		})
	}
}

// BenchmarkWhyIdle reports on a trace of RTL_REPORT_DISPATCHES / 10 (default 100,000) gaps, with 3 waits and 8 samples for each.
func BenchmarkWhyIdle(b *testing.B) {
	n := tracetest.Count(b, "RTL_REPORT_DISPATCHES") / 10
	path := tracetest.WriteThreadSteps(b, int64(n))
	meter := tracetest.Begin(b)
	for b.Loop() {
		if r, err := Make(path, Options{}); err != nil || len(r.WhyIdle.GPUs) != 1 {
			b.Fatal(err)
		}
	}
	meter.Report()
}
