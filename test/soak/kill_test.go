package soak

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

const killsPerTarget = 100

// TestKills: SIGKILL of the tool at a random moment, then a session that has to
// find and reclaim whatever was left. A tool that had ended before is no kill.
func TestKills(t *testing.T) { onEach(t, "kills of the tool", kills) }

func kills(t *testing.T, c *tally, w harness.Workload, number int) {
	t.Helper()
	for c.killed < number && !c.enough() {
		l, found, until := begin(t, c, w), c.findings(), min(c.killed+killsPerTarget, number)
		whole := l.took(t)
		for c.killed < until && c.findings() == found {
			c.rounds++
			if l.kill(t, momentOf(c.rounds, whole)) {
				whole = l.took(t)
				l.look(t)
			}
		}
		if c.findings() == found {
			l.end(t)
		}
	}
}

// took makes a session and says how long there was something to kill.
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

// kill ends before the payload has noticed the death, most times; every fourth
// time only after it has detached by itself.
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
	return l.look(t) && (l.tally.rounds%4 != 0 || l.rests(t))
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
