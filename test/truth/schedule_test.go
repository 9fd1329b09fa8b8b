package truth

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

func inPeriods(start, on, repeat int) []string {
	return []string{"--collection-period", fmt.Sprintf("%d:%d:%d", start, on, repeat), "--collection-period-unit", "msec"}
}

// Windows of a schedule: everything of them is in the trace, nothing of the time between them, and
// afterwards the target has nothing that it would not have after one recording.
func TestCollectionPeriods(t *testing.T) {
	windows := 20
	if testenv.Long() {
		windows = 1000
	}
	for name, w := range map[string]harness.Workload{
		"stress": harness.Stress(3, 2, 64, "--pace", "100"),
		"serve":  {Program: "serve", Args: []string{"--threads", "3", "--streams", "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := harness.Start(t, w)
			first := p.RecordShortly(t, 50*time.Millisecond)
			before := p.Snapshot(t)
			run := p.Begin(t, inPeriods(30, 40, windows)...).Wait(t)
			run.MustBe(t, failure.OK)
			if err := run.Decode(); err != nil {
				t.Fatal(err)
			}
			p.NothingLeft(t, before)
			periods := harness.ReadPeriods(t, run.Trace)
			recorded := harness.CheckPeriods(t, periods)
			last := periods[len(periods)-1]
			if n := last.Number + last.Count; n != int64(windows) {
				t.Errorf("%d windows in the trace, %d in the schedule", n, windows)
			}
			check(t, p, p.TIDs(), first, run).MustHaveRecorded(10 * windows)
			logSwitches(t, periods)
			t.Logf("%d of %d windows recorded; %s", recorded, windows, lastLine(run.Stderr))
		})
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// logSwitches logs by how much switches were late: how busy the machine was decides, so no test
// depends on it.
func logSwitches(t *testing.T, periods []harness.Period) {
	t.Helper()
	var on, off []int64
	for _, p := range periods {
		if p.Session != 0 && p.PlannedNS != 0 && p.PlannedEndNS != 0 {
			on, off = append(on, p.ArmedNS-p.PlannedNS), append(off, p.DetachedNS-p.PlannedEndNS)
		}
	}
	if len(on) == 0 {
		return
	}
	slices.Sort(on)
	slices.Sort(off)
	at := func(all []int64, percent int) time.Duration { return time.Duration(all[(len(all)-1)*percent/100]) }
	t.Logf("%d switches on: late by %v, 90 %% by at most %v, worst %v; off: %v, %v, %v",
		len(on), at(on, 50), at(on, 90), at(on, 100), at(off, 50), at(off, 90), at(off, 100))
}
