package faults

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

// Recorders die at random moments, each while it extends the trace of earlier ones. The trace has
// everything that each had committed, correctly, and everything from a last one that lives.
func TestRecordersKilled(t *testing.T) {
	t.Parallel() // they wait for most of the time
	p := harness.Start(t, harness.Stress(6, 2, 64, "--pace", "100"))
	trace := filepath.Join(t.TempDir(), "all.db")
	extending := []string{"-o", trace, "--append", "--set", "RTL_RECORDER_TIMEOUT_MS=1000"}
	const killed = 5
	for range killed {
		r := p.Begin(t, extending...)
		p.Active(t)
		least := atSomeMoment(t, trace)
		r.Kill()
		harness.Until(t, "the payload has detached by itself", func() bool { return p.Status(t).State == "dormant" })
		if whole := wholeSize(t, trace); whole < least {
			t.Errorf("%d bytes are left of the %d that were committed", whole, least)
		}
	}
	run := p.Begin(t, append(extending, "-d", "1s")...).Wait(t)
	run.MustBe(t, failure.OK)
	if _, err := os.Stat(trace + "-journal"); err == nil {
		t.Error("a journal is left")
	}
	counts := p.Quit(t)
	log := p.Truth(t)
	log.MustHoldOnce(t, counts)
	c := harness.Compare(t, log)
	c.Killed = true
	tr := harness.ReadTrace(t, trace)
	c.Add(tr)
	c.Finish(nil)
	c.MustHaveRecorded(200)
	if n := len(tr.Sessions); n != killed+1 {
		t.Errorf("%d sessions, expected %d", n, killed+1)
	}
}

// atSomeMoment returns after two commits and up to a second more, with the size of
// the trace at the last commit that is known to be complete.
func atSomeMoment(t *testing.T, trace string) (committed int) {
	t.Helper()
	begun := harness.SizeInHeader(trace)
	last, commits := begun, 0
	var moment time.Time
	harness.Until(t, "some moment", func() bool {
		if size := harness.SizeInHeader(trace); size > last {
			committed, last = last, size
			if commits++; commits == 2 {
				moment = time.Now().Add(rand.N(time.Second))
			}
		}
		return commits >= 2 && time.Now().After(moment)
	})
	return committed
}

// wholeSize opens a trace, which rolls uncommitted data back, and returns its size.
func wholeSize(t *testing.T, trace string) int {
	t.Helper()
	harness.MustBeSound(t, trace)
	return harness.SizeInHeader(trace)
}
