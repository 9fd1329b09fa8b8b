package export

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
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

// Perfetto has the steps of a thread on a track, and their repeated parts on another one.
func TestStepsInPerfetto(t *testing.T) {
	const number, apart = 20, 300 * 1024 * 7 * 11 // kernels as in TestSteps
	path := tracetest.Write(t, 64*number, func(i, _ int) int { return i%64 + i/64*apart })
	data, _ := exported(t, "pftrace", path)
	v := viewPerfetto(t, data)
	steps := 0
	for uuid, all := range v.slices {
		if !strings.HasPrefix(v.tracks[uuid].Name, "steps of ") {
			continue
		}
		for _, s := range all {
			steps++
			if s.name == "" || s.args["step"] != int64(steps) || s.args["kernels"] != int64(64) || s.args["differs"] != int64(0) || s.end <= s.begin {
				t.Errorf("%+v", s)
			}
		}
	}
	if steps != number {
		t.Errorf("%d steps", steps)
	}
}
