package harness

import (
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/apitable"
)

// Slots returns the entries of the HSA runtime's API table in the target.
func (p *Process) Slots(t testing.TB) apitable.Slots {
	t.Helper()
	slots, err := apitable.Read(p.PID, p.PID)
	if err != nil {
		t.Fatal(err)
	}
	return slots
}

// Library returns the path of a library that p has loaded.
func (p *Process) Library(t testing.TB, name string) string {
	t.Helper()
	for _, line := range p.lines(t, "maps") {
		if f := strings.Fields(line); len(f) == 6 && strings.Contains(f[5], name) {
			return f[5]
		}
	}
	t.Fatalf("no %s in the target", name)
	return ""
}

// HIPByGOT reports whether p's HIP is one without a dispatch table (before 6): its functions are
// intercepted at their callers.
func (p *Process) HIPByGOT(t testing.TB) bool {
	t.Helper()
	_, version, _ := strings.Cut(p.Library(t, "libamdhip64.so"), ".so.")
	return strings.HasPrefix(version, "5.")
}
