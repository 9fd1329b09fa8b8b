package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/failure"
)

// TestFlagsWithTool: with --via, each flag of a recording is carried out, or refused by its name.
func TestFlagsWithTool(t *testing.T) {
	known := newRecord(new(failure.ExitCode)).Flags()
	for _, name := range slices.Concat(slices.Collect(maps.Keys(whyNotWithTool)), withTool) {
		if known.Lookup(name) == nil {
			t.Errorf("--%s is no flag of a recording", name)
		}
	}
	refused := map[string]bool{}
	known.VisitAll(func(flag *pflag.Flag) {
		given := pflag.NewFlagSet("", pflag.ContinueOnError)
		given.AddFlag(flag)
		for _, value := range []string{flag.Value.String(), "1s", "1"} { // one of them is of its type
			if given.Set(flag.Name, value) == nil {
				break
			}
		}
		if !given.Changed(flag.Name) {
			t.Fatalf("--%s cannot be set", flag.Name)
		}
		f := recordFlags{known: given, cost: 1}
		if err := f.refuseWithTool(); err != nil {
			refused[flag.Name] = true
			if !strings.HasPrefix(err.Error(), "--"+flag.Name+" does not apply") {
				t.Errorf("--%s: %v", flag.Name, err)
			}
		}
	})
	for name := range whyNotWithTool {
		if !refused[name] {
			t.Errorf("--%s is dropped", name)
		}
	}
	for _, name := range []string{"output", "append", "json", "strict", "buffer-size", "measure-cost", "payload"} {
		if !refused[name] {
			t.Errorf("--%s is dropped", name)
		}
	}
}
