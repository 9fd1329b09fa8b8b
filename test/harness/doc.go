// Package harness starts real workloads on the simulated GPU, runs the built
// tool against them, and compares what the tool recorded with what the
// simulator says that it executed.
//
// The targets start with the simulator's preload and without anything of this tool, which must
// attach by ptrace, as to a user's process.
package harness

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// TestPayload returns the path of the payload with the test settings of fault.h.
func TestPayload(t testing.TB) string { return testenv.Artefact(t, "librtl-attach-test.so") }
