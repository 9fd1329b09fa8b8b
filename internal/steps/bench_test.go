package steps_test

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/steps"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/test/tracetest"
)

// BenchmarkSteps finds the steps of a trace of RTL_REPORT_DISPATCHES (default 1,000,000): what they add to a
// report, which BenchmarkReport of package report measures whole.
func BenchmarkSteps(b *testing.B) {
	path := tracetest.Write(b, tracetest.Count(b, "RTL_REPORT_DISPATCHES"), tracetest.InOrder)
	tr, err := traceread.Open(b.Context(), path)
	if err != nil {
		b.Fatal(err)
	}
	defer tr.Close()
	meter := tracetest.Begin(b)
	n := 0
	for b.Loop() {
		all, err := steps.Find(b.Context(), tr, steps.Options{Window: traceread.Always})
		if err != nil {
			b.Fatal(err)
		}
		n = len(all)
	}
	meter.Report()
	b.ReportMetric(float64(n), "threads")
}
