package faults

import (
	"fmt"
	"strings"
	"testing"
)

// attaches has the results of recordings with the tool. Only the first attach to a process
// injects; later ones use the resident payload.
type attaches struct {
	injections, reattaches int
	timed                  int64
}

// record attaches once, or twice if the first attach records nothing, and must succeed.
func (a *attaches) record(t *testing.T, pid int) {
	t.Helper()
	r := record(t, pid)
	a.timed += r.ok(t)
	if r.first != "" {
		a.count(t, r.first)
	}
	a.count(t, r.Stderr.String())
}

// count notes how a tool has attached, by its output.
func (a *attaches) count(t *testing.T, said string) {
	t.Helper()
	switch {
	case strings.Contains(said, "resident payload re-attached"):
		a.reattaches++
	case strings.Contains(said, "stopped thread "):
		a.injections++
	default:
		t.Errorf("it does not say how it has attached\n%s", said)
	}
}

func (a attaches) String() string {
	return fmt.Sprintf("the tool: %d injections, %d reattaches, %d dispatches timed", a.injections, a.reattaches, a.timed)
}

// recorded attaches n times to one victim.
func (v *gpuVictim) recorded(t *testing.T, n int) (a attaches) {
	t.Helper()
	for range n {
		a.record(t, v.PID)
	}
	return a
}

// attached records a victim that answers letters n times, and checks that it is unharmed.
func (v *gpuVictim) attached(t *testing.T, n int) string {
	t.Helper()
	a := v.recorded(t, n)
	v.well(t)
	return a.String()
}

// attachedBusy does the same with the victim busy, which checks more.
func (v *gpuVictim) attachedBusy(t *testing.T, n int) string {
	t.Helper()
	a := v.recorded(t, n)
	h := v.sound(t)
	return fmt.Sprintf("%v; harm %d, EINTR %d, masks %d", a, h.Harm, h.EINTR, h.Mask)
}
