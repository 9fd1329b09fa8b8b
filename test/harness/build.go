// Package harness starts real workloads on the simulated GPU, runs the built
// tool against them, and compares what the tool recorded with what the
// simulator says that it executed.
//
// The targets are started with the simulator's preload and nothing of ours:
// the tool has to get in by ptrace, as at a user's.
package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

var skips struct {
	sync.Mutex
	reasons map[string]int
}

// Skip is the one way in which a test is left out.
func Skip(t testing.TB, reason string) {
	t.Helper()
	skips.Lock()
	if skips.reasons == nil {
		skips.reasons = map[string]int{}
	}
	skips.reasons[reason]++
	skips.Unlock()
	t.Skip(reason)
}

// Main runs the tests of a package and says how many were skipped, and why.
func Main(m *testing.M) {
	code := m.Run()
	for reason, n := range skips.reasons {
		fmt.Printf("skipped %d: %s\n", n, reason)
	}
	os.Exit(code)
}

// Long reports whether the long forms of the tests are wanted.
func Long() bool { return os.Getenv("RTL_LONG") == "1" }

// Artefact returns the path of something that make has built. Without it the test
// is skipped, but fails below make, which has built everything.
func Artefact(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(buildDir(t), name)
	if _, err := os.Stat(path); err != nil && os.Getenv("RTL_BUILD") != "" {
		t.Fatal(err)
	} else if err != nil {
		Skip(t, name+" is not built (run: make)")
	}
	return path
}

// buildDir is where make builds.
func buildDir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("RTL_BUILD")
	if dir == "" {
		_, here, _, _ := runtime.Caller(0)
		dir = filepath.Join(filepath.Dir(here), "..", "..", "build")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPayload is the payload with the knobs of fault.h.
func TestPayload(t testing.TB) string { return Artefact(t, "librtl-attach-test.so") }
