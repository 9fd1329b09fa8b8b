package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/envbuf"
	"github.com/rtl-attach/rtl-attach/internal/failure"
)

// TestMeant: what is mistyped is answered with what comes near, and nothing else.
func TestMeant(t *testing.T) {
	for typed, want := range map[string]string{
		"1234":               "did you mean rtl-attach --pid 1234?",
		"record 12,13":       "did you mean rtl-attach record --pid 12,13?",
		"exprot":             "did you mean export?",
		"sta":                "did you mean status?",
		"--durations 5":      "did you mean --duration?",
		"report --windw 1:2": "did you mean --window?",
		"ps 12":              "see rtl-attach --help",
		"frobnicate":         "see rtl-attach --help",
		"--frobnicate":       "see rtl-attach --help",
		"-Z":                 "see rtl-attach --help",
	} {
		var code failure.ExitCode
		root := newRoot(&code)
		root.SetArgs(strings.Fields(typed))
		if err := root.Execute(); err == nil || fixOf(err) != want {
			t.Errorf("%q: %v: %q, want %q", typed, err, fixOf(err), want)
		}
	}
}

type warnings []string

func (w *warnings) Warn(text string) { *w = append(*w, text) }

// TestUnknownVariables: only names that begin as ours do and are no default of a flag.
func TestUnknownVariables(t *testing.T) {
	var code failure.ExitCode
	environ := []string{"RTL_ATTACH_OUTPUT=x", "RTL_ATTACH_OUTPT=x", "RTL_ATTACH_KERNELS=3", "RTL_ATTACH=1", "HOME=/"}
	var got warnings
	warnOfVariables(&got, newRecord(&code).Flags(), environ)
	want := []string{
		"the environment has RTL_ATTACH_OUTPT, which is no default of a flag; did you mean RTL_ATTACH_OUTPUT?",
		"the environment has RTL_ATTACH_KERNELS, which is no default of a flag",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestUnknownSettings: the payload passes over a name that it does not know.
func TestUnknownSettings(t *testing.T) {
	var got warnings
	warnOfSettings(&got, []envbuf.Var{{Name: "RTL_STAMP", Value: "tsc"}, {Name: "RTL_HSA_LIBARY", Value: "x"}, {Name: "X", Value: ""}})
	want := []string{
		"--set RTL_HSA_LIBARY: the payload has no setting of this name; did you mean RTL_HSA_LIBRARY?",
		"--set X: the payload has no setting of this name",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
