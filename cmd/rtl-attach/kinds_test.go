package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestKindFlags: which kinds of record the flags turn on.
func TestKindFlags(t *testing.T) {
	const copies, runtime, compiler, core, amd = "memory-copy", "hip-runtime-api", "hip-compiler-api", "hsa-core-api", "hsa-amd-ext-api"
	const rccl, allocations, scratch, markers = "rccl-api", "memory-allocation", "scratch-memory", "marker"
	everything := strings.Join([]string{copies, runtime, compiler, core, amd, rccl, allocations, scratch, markers}, " ")
	for line, want := range map[string]string{
		"":                                       "",
		"--memory-copy-trace":                    copies,
		"--hip-trace":                            runtime + " " + compiler,
		"--hip-runtime-trace":                    runtime,
		"--hip-compiler-trace":                   compiler,
		"--hsa-trace":                            core + " " + amd,
		"--hsa-core-trace":                       core,
		"--hsa-amd-trace":                        amd,
		"--hsa-signal-trace":                     core,
		"--scratch-memory-trace":                 scratch,
		"--rccl-trace":                           rccl,
		"-r":                                     strings.Join([]string{copies, runtime, rccl, allocations, scratch, markers}, " "),
		"-s":                                     everything,
		"--sys-trace --hsa-trace=false":          strings.Join([]string{copies, runtime, compiler, rccl, allocations, scratch, markers}, " "),
		"-s --hsa-trace=false --hsa-amd-trace":   strings.Join([]string{copies, runtime, compiler, amd, rccl, allocations, scratch, markers}, " "),
		"--hip-trace --hip-compiler-trace=false": runtime,
		"--mode lite":                            "",
		"--mode standard":                        copies,
		"--mode hip":                             strings.Join([]string{copies, runtime, compiler}, " "),
		"--mode full":                            everything,
		"--mode hip --memory-copy-trace=0 --hsa-amd-trace=yes": "error",
		"--mode fast": "error",
	} {
		got, err := kindsOf(strings.Fields(line)...)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %q (%v), want %q", line, got, err, want)
		}
	}
}

// kindsOf returns the names of the kinds that flags turn on.
func kindsOf(args ...string) (string, error) {
	var k kindFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	k.addTo(flags)
	if err := flags.Parse(args); err != nil {
		return "", err
	}
	kinds, _, err := k.chosen()
	var names []string
	for _, one := range kinds {
		names = append(names, one.ID.String())
	}
	return strings.Join(names, " "), err
}
