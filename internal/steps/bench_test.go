package steps_test

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/steps"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/test/tracetest"
)

// BenchmarkSteps finds the steps of a trace of RTL_REPORT_DISPATCHES (default 1,000,000): what they add to a
// report, which BenchmarkReport of package report measures whole. "none" has no steps, "steps" only steps.
func BenchmarkSteps(b *testing.B) {
	const kernels, apart = 64, 300 * 1024 * 7 * 11 // one thread's, and until they come again, in the same order
	for name, order := range map[string]tracetest.Order{
		"none":  tracetest.InOrder,
		"steps": func(i, _ int) int { return i%kernels + i/kernels*apart },
	} {
		b.Run(name, func(b *testing.B) {
			n := tracetest.Count(b, "RTL_REPORT_DISPATCHES")
			tr, err := traceread.Open(b.Context(), tracetest.Write(b, n, order))
			if err != nil {
				b.Fatal(err)
			}
			defer tr.Close()
			meter := tracetest.Begin(b)
			for b.Loop() {
				all, err := steps.Find(b.Context(), tr, steps.Options{Window: traceread.Always})
				if err != nil || (len(all) == 1) != (name == "steps") {
					b.Fatal(len(all), err)
				}
			}
			meter.Report()
		})
	}
}
