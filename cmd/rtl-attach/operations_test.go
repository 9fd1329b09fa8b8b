package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
)

// operationsOf returns the kinds that flags turn on, and the functions to which they are restricted.
func operationsOf(t *testing.T, args ...string) (kinds, functions string, err error) {
	t.Helper()
	var k kindFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	k.addTo(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	on, digits, err := k.chosen()
	var ids, names []string
	for _, one := range on {
		ids = append(ids, one.ID.String())
	}
	for i := range digits {
		for bit := range 4 {
			if strings.IndexByte("0123456789abcdef", digits[i])>>bit&1 == 1 {
				names = append(names, function.Table()[4*i+bit].Name)
			}
		}
	}
	return strings.Join(ids, " "), strings.Join(names, " "), err
}

// TestOperations: the kinds and functions that --operations selects.
func TestOperations(t *testing.T) {
	for _, c := range []struct{ line, kinds, functions string }{
		{"--operations hipMalloc,hipFree", "hip-runtime-api", "hipFree hipMalloc"},
		{"--operations hipFree --operations hsa_signal_load_relaxed", "hip-runtime-api hsa-core-api", "hipFree hsa_signal_load_relaxed"},
		{"--operations hipMallocA* --memory-copy-trace", "memory-copy hip-runtime-api", "hipMallocArray hipMallocAsync"},
		{"--hip-trace --operations hipFree", "hip-runtime-api", "hipFree"},
		{"--sys-trace --operations ncclAllReduce", "memory-copy rccl-api memory-allocation scratch-memory marker", "ncclAllReduce"},
		{"--hsa-core-trace --operations hsa_agent_get_e*,hsa_agent_get_info", "hsa-core-api", "hsa_agent_get_exception_policies hsa_agent_get_info"},
		{"--hip-compiler-trace=false --operations *PushCallConfiguration,hipPop*", "", "error"},
		{"--hsa-signal-trace --operations hsa_signal_load_relaxed", "hsa-core-api", "hsa_signal_load_relaxed"},
		{"--hsa-trace", "hsa-core-api hsa-amd-ext-api", ""},
		{"--hip-trace --hsa-signal-trace --hsa-core-trace=false", "hip-runtime-api hip-compiler-api", ""},
	} {
		kinds, functions, err := operationsOf(t, strings.Fields(c.line)...)
		if err != nil {
			kinds, functions = "", "error"
		}
		if kinds != c.kinds || functions != c.functions {
			t.Errorf("%s: kinds %q, functions %q (%v), want %q, %q", c.line, kinds, functions, err, c.kinds, c.functions)
		}
	}
	_, functions, err := operationsOf(t, "--hip-trace", "--hsa-signal-trace")
	for _, name := range []string{"hipFree", "hsa_signal_load_relaxed", "hsa_agent_get_info"} {
		if err != nil || !strings.Contains(functions, name) {
			t.Errorf("--hsa-signal-trace records no %s: %v", name, err)
		}
	}
	if strings.Contains(functions, "hsa_init") {
		t.Error("--hsa-signal-trace records hsa_init")
	}
}

// TestOperationsRefused: what is wrong with a pattern, and what was probably meant.
func TestOperationsRefused(t *testing.T) {
	for line, want := range map[string][2]string{
		"--operations=":                         {"a function's name is needed", ""},
		"--operations hip[":                     {"not a pattern", ""},
		"--operations hipMaloc":                 {"has such a name", "hipMalloc"},
		"--operations hipMemcpy2":               {"has such a name", "'hipMemcpy2*'"},
		"--operations hsa_signal_load_acquire":  {"has such a name", "hsa_signal_load_scacquire"},
		"--operations hsa_init":                 {"cannot be intercepted", ""},
		"--hip-trace --operations hsa_agent_*":  {"--hip-runtime-trace, --hip-compiler-trace", "--hsa-core-trace"},
		"--hip-trace --operations ncclCommInit": {"has such a name", "'ncclCommInit*'"},
	} {
		_, _, err := operationsOf(t, strings.Fields(line)...)
		var m mistyped
		errors.As(err, &m)
		if err == nil || !strings.Contains(err.Error(), want[0]) || !strings.Contains(m.meant, want[1]) || (m.meant == "") != (want[1] == "") {
			t.Errorf("%s: %v, meant %q; want %q", line, err, m.meant, want)
		}
	}
}
