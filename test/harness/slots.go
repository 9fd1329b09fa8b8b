package harness

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/apitable"
)

// Slots are the entries of the HSA runtime's API table in the target.
func (p *Process) Slots(t testing.TB) apitable.Slots {
	t.Helper()
	slots, err := apitable.Read(p.PID, p.PID)
	if err != nil {
		t.Fatal(err)
	}
	return slots
}
