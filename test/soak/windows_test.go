package soak

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

// windowsAtOnce is how many windows one recording has: each is armed and disarmed in the target.
const windowsAtOnce = 50

// TestKindWindows: targets in which every kind is armed and disarmed by a schedule. Nothing is lost, each item is accounted
// for, and after each recording all words of the runtime and of the libraries are as before.
func TestKindWindows(t *testing.T) {
	t.Parallel()
	for _, w := range kindWorkloads {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			c, recorded := &tally{began: time.Now()}, 0
			armAndDisarm(t, c, oneArena(w.start(t)), &recorded)
			c.report(t, fmt.Sprintf("%d windows of every kind, %s", recorded, w.name))
		})
	}
}

// armAndDisarm goes on until as many windows are recorded as TestKinds makes sessions: on a busy machine some are over before
// they could begin.
func armAndDisarm(t *testing.T, c *tally, w harness.Workload, recorded *int) {
	t.Helper()
	more := func() bool { return *recorded < kindRounds() }
	for more() && !c.enough() {
		l := &kindLife{life: begin(t, c, w)}
		l.see(t)
		p := plan{1, more, func(t *testing.T) bool { return l.windows(t, recorded) }}
		l.cycle(t, p, &life{Process: harness.Start(t, w), tally: c})
	}
}

// windows is a recording of every kind in windows.
func (l *kindLife) windows(t *testing.T, recorded *int) bool {
	t.Helper()
	l.sessions++
	c := everything()
	schedule := []string{"--collection-period", fmt.Sprintf("20:20:%d", windowsAtOnce), "--collection-period-unit", "msec"}
	run, ok := l.checked(t, l.Begin(t, append(schedule, c.args...)...).Wait(t))
	defer os.RemoveAll(filepath.Dir(run.Trace))
	if !ok || !l.isSound(t, run, c) {
		return false
	}
	n := harness.CheckPeriods(t, harness.ReadPeriods(t, run.Trace))
	if l.tally.rounds > 0 { // it has settled
		*recorded += n
	}
	return true
}
