package truth

import (
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

// A kind that cannot be recorded is named in the trace, with the reason, and nothing else changes: the others are
// recorded, every dispatch is equal to the truth, and the target is as before. The next recording has the kind.
func TestKindUnavailable(t *testing.T) {
	payload := harness.TestPayload(t)
	p := harness.Start(t, harness.Stress(4, 2, 64, "--pace", "300"))
	before, slots := p.Snapshot(t), p.Slots(t)
	args := []string{"-s", "--payload", payload}
	runs := []harness.Run{p.RecordUntil(t, 300*time.Millisecond, 1000, args...)}
	for _, c := range []struct{ kind, step string }{
		{"memory-copy", "find"},
		{"memory-copy", "start"},
		{"memory-allocation", "find"},
		{"hip-runtime-api", "prepare"},
		{"hsa-core-api", "start"},
		{"scratch-memory", "start"},
		{"marker", "prepare"},
	} {
		step := c.kind + " " + c.step
		run := p.RecordUntil(t, 300*time.Millisecond, 1000, append(args, "--set", "RTL_TEST_FAIL_STEP="+step)...)
		if !strings.Contains(run.Stderr, c.kind+" cannot be recorded in this process: made to fail at "+step) {
			t.Errorf("%s: no warning:\n%s", step, run.Stderr)
		}
		mustBeWithout(t, run, c.kind, step)
		if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
			t.Errorf("%s: slots changed: %v", step, changed)
		}
		p.AsFound(t, before)
		runs = append(runs, run)
	}
	runs = append(runs, p.RecordUntil(t, 300*time.Millisecond, 1000, args...))
	for _, whole := range []harness.Run{runs[0], runs[len(runs)-1]} {
		if s := summaryOf(t, whole); len(s.Unavailable) > 0 {
			t.Errorf("%+v", s.Unavailable)
		}
	}
	strict := p.TryRecordUntil(t, 0, 500, append(args, "--strict", "--set", "RTL_TEST_FAIL_STEP=memory-copy find")...)
	strict.MustBe(t, failure.RecordsMissing)
	if !strings.Contains(strict.Stderr, "--strict: not every kind could be recorded\n") {
		t.Errorf("not said:\n%s", strict.Stderr)
	}
	p.TryRecord(t, 100*time.Millisecond, append(args, "--set", "RTL_TEST_FAIL_STEP=dispatch find")...).MustBe(t, failure.Failed)
	p.AsFound(t, before)
	p.StillAlive(t)
	harness.Check(t, p, p.TIDs(), runs...).MustHaveRecorded(2000)
}

func summaryOf(t *testing.T, run harness.Run) *report.Summary {
	t.Helper()
	s, err := report.Summarize(run.Trace, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mustBeWithout demands that only that kind is missing.
func mustBeWithout(t *testing.T, run harness.Run, kind, step string) {
	t.Helper()
	s := summaryOf(t, run)
	want := report.Unavailable{Kind: kind, Reason: "made to fail at " + step, Sessions: 1}
	if len(s.Unavailable) != 1 || s.Unavailable[0] != want {
		t.Errorf("%s: %+v, want %+v", step, s.Unavailable, want)
	}
	if _, recorded := s.Kinds[kind]; recorded {
		t.Errorf("%s: the summary has a section of it", step)
	}
	if _, recorded := s.Kinds["hsa-amd-ext-api"]; !recorded {
		t.Errorf("%s: another kind is missing: %v", step, s.Kinds)
	}
}
