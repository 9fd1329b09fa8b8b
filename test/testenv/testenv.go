// Package testenv reports what a test can use: artefacts of make, root, the long forms. It has the
// only function that skips a test, so that each skip has a reason.
//
// It imports no other package of the project, so that tests of every package can use it.
package testenv

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

// Skip leaves a test out. The reason says what this machine lacks; the summary of
// `make test` lists it (docs/testing.md).
func Skip(t testing.TB, reason string) {
	t.Helper()
	t.Skip("left out: " + reason)
}

// NeedRoot skips a test unless it runs as root.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Skip(t, "not root")
	}
}

// Long reports whether the long forms of the tests are wanted: RTL_LONG=1.
func Long() bool { return Times(0, 1) > 0 && !testing.Short() }

// Times returns how often a test repeats what it does at random: short, or long with
// RTL_LONG=1, or n with RTL_LONG=n for n > 1.
func Times(short, long int) int {
	switch n, _ := strconv.Atoi(os.Getenv("RTL_LONG")); n {
	case 0:
		return short
	case 1:
		return long
	default:
		return n
	}
}

// ToolDefaults returns the environment variables that the tests' recorders run with: without the comparison
// of the target's rates, which takes time (tests of it give the flag), and with timeouts, in ms, of the heartbeat and of the
// grace period that a recorder and a target do not reach because they wait for a processor. Tests that await one set their own.
func ToolDefaults() []string {
	return []string{"RTL_ATTACH_MEASURE_COST=0", "RTL_ATTACH_SET=RTL_RECORDER_TIMEOUT_MS=60000\nRTL_GRACE_TIMEOUT_MS=12000"}
}

// BuildDir returns the absolute path of the directory that make builds into: RTL_BUILD,
// or build/ of the checkout.
func BuildDir() string {
	dir := os.Getenv("RTL_BUILD")
	if dir == "" {
		_, here, _, _ := runtime.Caller(0)
		dir = filepath.Join(filepath.Dir(here), "..", "..", "build")
	}
	if absolute, err := filepath.Abs(dir); err == nil {
		return absolute
	}
	return dir // there is no working directory
}

// Artefact returns the absolute path of something that make has built. Without it the
// test is skipped, but fails below make, which has built everything.
func Artefact(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(BuildDir(), name)
	if _, err := os.Stat(path); err != nil && os.Getenv("RTL_BUILD") != "" {
		t.Fatal(err)
	} else if err != nil {
		Skip(t, "no "+name+" (run: make tool fault-tool simulator workloads victims)")
	}
	return path
}
