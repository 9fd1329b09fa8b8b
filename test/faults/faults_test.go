package faults

import (
	"slices"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/faultpoints"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

// The first attach fails, without anything from an earlier session.
func TestFirstAttachFails(t *testing.T) {
	payload := harness.TestPayload(t)
	for _, step := range slices.Concat(faultpoints.First, faultpoints.Arming) {
		t.Run(step, func(t *testing.T) {
			p := harness.Start(t, harness.Stress(4, 2, 64, "--pace", "300"))
			slots := p.Slots(t)
			run := p.TryRecord(t, time.Second, "--payload", payload, "--set", "RTL_TEST_FAIL_STEP="+step)
			run.MustBe(t, failure.Failed)
			if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
				t.Errorf("slots changed: %v", changed)
			}
			p.StillAlive(t)
		})
	}
}

// An attach that fails at any step leaves the target as it was, and the next attach works.
func TestFaults(t *testing.T) {
	payload := harness.TestPayload(t)
	p := harness.Start(t, harness.Stress(6, 2, 64, "--pace", "300"))
	before, slots := p.Snapshot(t), p.Slots(t)
	var runs []harness.Run
	for _, step := range faultpoints.Arming {
		run := p.TryRecord(t, time.Second, "--payload", payload, "--set", "RTL_TEST_FAIL_STEP="+step)
		run.MustBe(t, failure.Failed)
		if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
			t.Errorf("%s: slots changed: %v", step, changed)
		}
		p.AsFound(t, before)
		runs = append(runs, p.RecordUntil(t, 300*time.Millisecond, 1000, "--payload", payload))
		p.AsFound(t, before)
	}
	p.StillAlive(t)
	harness.Check(t, p, p.TIDs(), runs...).MustHaveRecorded(600)
}
