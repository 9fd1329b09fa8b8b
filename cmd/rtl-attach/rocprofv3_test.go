package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/failure"
)

// TestRewriteArguments: rocprofv3's forms of this tool's own flags; what belongs to a started program stays as it is.
func TestRewriteArguments(t *testing.T) {
	flags := newRecord(new(failure.ExitCode)).Flags()
	for line, want := range map[string]string{
		"--attach 5 -P 1:1:1 2:2:2 -q":                    "--attach 5 -P=1:1:1 2:2:2 -q",
		"record --collection-period 1:1:1 2:2:2":          "record --collection-period=1:1:1 2:2:2",
		"-p 5 --kernel-iteration-range [1-3] [5]":         "-p 5 --kernel-iteration-range=[1-3] [5]",
		"run -P 1:1:1 2:2:2 --hip-trace off -- a -P x on": "run -P=1:1:1 2:2:2 --hip-trace=false -- a -P x on",
		"run -P 1:1:1 a --hip-trace off":                  "run -P 1:1:1 a --hip-trace off",
		"report t.db --kernel-iteration-range 1 2":        "report t.db --kernel-iteration-range 1 2",
	} {
		if got := strings.Join(rewriteArguments(strings.Fields(line), flags), " "); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	if got := rewriteArguments(strings.Fields("-P 1:1:1 2:2:2"), flags); !slices.Equal(got, []string{"-P=1:1:1 2:2:2"}) {
		t.Errorf("%q", got)
	}
}
