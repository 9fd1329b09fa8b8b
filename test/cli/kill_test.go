package cli

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

const killWindow = 250 * time.Millisecond

// TestToolKilledAnytime: SIGKILL at a random moment of attach, recording and
// detach. A third of them falls into the attach, of which the last third into
// its first milliseconds. Every target suffers a few deaths.
func TestToolKilledAnytime(t *testing.T) {
	whole := measured(t)
	t.Logf("a normal run takes %v", whole)
	n := testenv.Times(12, 200)
	for killed := 0; killed < n; {
		target, what := serve, "serve"
		if killed%5 == 3 {
			target, what = stress, "hsastress"
		}
		s := target(t)
		before := s.inventory(t)
		for range min(2, n-killed) {
			after := momentOf(killed, whole)
			killed++
			t.Logf("%d: %s, killed after %v", killed, what, after)
			killOnce(t, s, before, after, killed%2 == 0)
			if t.Failed() {
				return
			}
		}
		end(t, s)
	}
}

// measured is how long a normal run takes.
func measured(t *testing.T) time.Duration {
	s := serve(t)
	began := time.Now()
	s.again(t)
	took := time.Since(began)
	end(t, s)
	return took
}

func momentOf(n int, whole time.Duration) time.Duration {
	within := whole
	switch n % 6 {
	case 0, 1:
		within = whole - killWindow // attach and detach; the attach comes first
	case 2:
		within = 8 * time.Millisecond
	}
	return time.Duration(rand.Int64N(int64(within)))
}

// killOnce kills a recording, then makes a new one that must work and clean up.
// at once: before the payload has noticed.
func killOnce(t *testing.T, s *subject, before inventory, after time.Duration, atOnce bool) {
	t.Helper()
	r := s.record(t, killWindow, quickly)
	death := time.AfterFunc(after, func() { _ = r.Cmd.Process.Kill() })
	code := r.Exit(t)
	death.Stop()
	s.unharmed(t)
	if !atOnce {
		s.atRest(t)
		s.unharmed(t)
	}
	if _, err := os.Stat(r.Trace); err == nil && code == -1 {
		r.readable(t)
	}
	again := s.again(t)
	s.onlyDormant(t, before)
	s.unharmed(t)
	again.KeepEvidence(t)
}

// end asks the target to finish: it does so as if nothing had been.
func end(t *testing.T, s *subject) {
	t.Helper()
	if _, err := s.ask("/quit"); err != nil {
		t.Errorf("quit: %v", err)
	}
	if status := s.ended(t); status != 0 {
		t.Errorf("the target ended with %#x", status)
	}
	s.engineEnded(t)
}
