package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
)

// buildDir is where make put the artefacts.
func buildDir() string {
	if dir := os.Getenv("RTL_BUILD"); dir != "" {
		return dir
	}
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "../../build")
}

// artefact is the path of something built. Without it the test is skipped, but fails
// below make, which has built everything.
func artefact(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(buildDir(), name)
	if _, err := os.Stat(path); err != nil && os.Getenv("RTL_BUILD") != "" {
		t.Fatal(err)
	} else if err != nil {
		skip(t, "no "+name+" (run: make tool simulator workloads victims)")
	}
	return path
}

// skip is the one way to leave a test out.
func skip(t testing.TB, reason string) {
	t.Helper()
	t.Skip("left out: " + reason)
}

// times is how often a random test is repeated: RTL_LONG=1 for long, or a
// number of one's own.
func times(short, long int) int {
	switch n, _ := strconv.Atoi(os.Getenv("RTL_LONG")); n {
	case 0:
		return short
	case 1:
		return long
	default:
		return n
	}
}
