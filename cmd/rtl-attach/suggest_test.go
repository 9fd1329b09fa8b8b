package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/envbuf"
	"github.com/rtl-attach/rtl-attach/internal/failure"
)

// TestMeant: an error about a mistyped name suggests similar names, and no others.
func TestMeant(t *testing.T) {
	for typed, want := range map[string]string{
		"1234":                   "did you mean rtl-attach --pid 1234?",
		"record 12,13":           "did you mean rtl-attach record --pid 12,13?",
		"exprot":                 "did you mean export?",
		"sta":                    "did you mean status?",
		"--durations 5":          "did you mean --duration?",
		"report --windw 1:2":     "did you mean --window?",
		"ps 12":                  "see rtl-attach ps --help",
		"report t.db --csv gaps": "did you mean --csv=gaps?",
		"-p serve":               "did you mean --name serve?",
		"record --pid ./serve":   "did you mean --name ./serve?",
		"--pid=0x10":             "see rtl-attach --help",
		"-d serve":               "see rtl-attach --help",
		"frobnicate":             "see rtl-attach --help",
		"--frobnicate":           "see rtl-attach --help",
		"-Z":                     "see rtl-attach --help",
	} {
		var code failure.ExitCode
		root := newRoot(&code)
		root.SetArgs(strings.Fields(typed))
		if command, err := root.ExecuteC(); err == nil || fixOf(command, err) != want {
			t.Errorf("%q: %v: %q, want %q", typed, err, fixOf(command, err), want)
		}
	}
}

type warnings []string

func (w *warnings) Warn(text string) { *w = append(*w, text) }

// TestUnknownVariables: the tool warns only of names with our prefix that belong to no flag.
func TestUnknownVariables(t *testing.T) {
	var code failure.ExitCode
	environ := []string{"RTL_ATTACH_OUTPUT=x", "RTL_ATTACH_OUTPT=x", "RTL_ATTACH_KERNELS=3", "RTL_ATTACH=1", "HOME=/"}
	var got warnings
	warnOfVariables(&got, newRecord(&code).Flags(), environ)
	want := []string{
		"environment variable RTL_ATTACH_OUTPT is ignored: no flag has this name; did you mean RTL_ATTACH_OUTPUT?",
		"environment variable RTL_ATTACH_KERNELS is ignored: no flag has this name",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestUnknownSettings: the tool warns of settings that the payload would ignore.
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
