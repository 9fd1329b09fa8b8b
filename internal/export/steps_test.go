package export

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/steps"
	"github.com/rtl-attach/rtl-attach/test/tracetest"
)

// Timelines have each step as a slice; with a selection, every format has only what starts in its time.
func TestSteps(t *testing.T) {
	const kernels, number, apart = 64, 20, 300 * 1024 * 7 * 11 // one thread's, and until they come again
	path := tracetest.Write(t, kernels*number, func(i, _ int) int { return i%kernels + i/kernels*apart })
	for _, name := range []string{"pftrace", "chrome", "csv", rocprofJSON} {
		format, _ := FormatNamed(name)
		for selected, want := range map[steps.Selection]int64{{}: number, {Last: 3}: 3, {From: 5, Until: 9}: 4, {From: 5, Until: 6}: 1} {
			f, output := format, filepath.Join(t.TempDir(), "out")
			if selected != (steps.Selection{}) {
				f = format.OfSteps(selected)
			}
			r, err := f.Write(t.Context(), path, output, 0)
			must(t, err)
			if r.Dispatches != want*kernels || r.LeftOut != 0 {
				t.Errorf("%s, %+v: %d dispatches", name, selected, r.Dispatches)
			}
			if n := bytes.Count(readFile(t, output), []byte("step of 64 kernels")); name == "chrome" && n != int(want) {
				t.Errorf("%s, %+v: %d slices", name, selected, n)
			}
		}
	}
	format, _ := FormatNamed("csv")
	if _, err := format.OfSteps(steps.Selection{From: 1000}).Write(t.Context(), path, filepath.Join(t.TempDir(), "out"), 0); !errors.Is(err, steps.ErrNoSteps) {
		t.Error(err)
	}
}
