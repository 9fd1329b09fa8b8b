package soak

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const killsPerTarget = 100

// TestKills: SIGKILL of the tool at a random moment, then a session that has to
// find and reclaim whatever was left.
func TestKills(t *testing.T) {
	c := &tally{began: time.Now()}
	for c.goesOn(rounds()) {
		l, found := begin(t, c, workloads[c.targets%len(workloads)]), c.findings()
		whole := l.took(t)
		for range min(killsPerTarget, rounds()-c.rounds) {
			c.rounds++
			if !l.kill(t, momentOf(c.rounds, whole)) {
				break
			}
		}
		if c.findings() == found {
			l.end(t)
		}
	}
	c.report(t, "kills of the tool")
}

// took is how long a session takes, that is: how long there is something to kill.
func (l *life) took(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	l.session(t)
	return time.Since(began)
}

// momentOf spreads the kills over the whole run; every third falls into its
// first milliseconds, in which the target is stopped if it is stopped at all.
func momentOf(round int, whole time.Duration) time.Duration {
	if round%3 == 0 {
		whole = 15 * time.Millisecond
	}
	return time.Duration(rand.Int64N(int64(whole)))
}

// kill: odd rounds look at the target, and attach again, before the payload has
// noticed the death; even ones only after it has detached by itself.
func (l *life) kill(t *testing.T, after time.Duration) bool {
	t.Helper()
	r := l.Begin(t, "-d", window.String(), "--set", "RTL_RECORDER_TIMEOUT_MS=500", "--buffer-size", "4MiB")
	death := time.AfterFunc(after, r.Kill)
	run := r.Wait(t)
	death.Stop()
	defer os.RemoveAll(filepath.Dir(run.Trace))
	if run.Code == -1 {
		l.tally.killed++
	}
	if !l.look(t) {
		return false
	}
	if l.tally.rounds%4 == 0 && !l.rests(t) {
		return false
	}
	return l.session(t) && l.look(t)
}

// rests: the payload detaches by itself from a recorder that is dead.
func (l *life) rests(t *testing.T) bool {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		st := l.Status(t)
		if !st.Resident || st.State == "dormant" || st.State == "idle" {
			return true
		}
		if time.Now().After(deadline) {
			l.tally.find(&l.tally.stuck, "the payload does not detach by itself: %s", st.State)
			return false
		}
	}
}
