package soak

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

const killsPerTarget = 20

// TestKills: SIGKILL of the tool at a random moment, first of attaches to a target as it
// was started, then of sessions with a payload that is there; and each time a session
// that has to find and reclaim whatever was left. A tool that had ended before is no kill.
func TestKills(t *testing.T) { onEach(t, "kills of the tool", kills) }

func kills(t *testing.T, c *tally, w harness.Workload, number int) {
	t.Helper()
	first := begin(t, c, w)
	attach := first.took(t) - window
	first.end(t)
	for c.killed < number && !c.enough() {
		l, found := begin(t, c, w), c.findings()
		l.suffer(t, attach, min(killsPerTarget, number-c.killed))
		if c.findings() == found {
			l.end(t)
		}
	}
}

// suffer kills the tools of one target: until a payload is there, and then about as often.
func (l *life) suffer(t *testing.T, attach time.Duration, most int) {
	t.Helper()
	c, before := l.tally, l.tally.killed
	for range most {
		if l.resident(t) {
			break
		}
		if !l.kill(t, momentOf(c.rounds, attach)) {
			return
		}
	}
	attaches := c.killed - before
	c.attaches += attaches
	whole := l.took(t)
	for range min(attaches, most-attaches) {
		if !l.kill(t, momentOf(c.rounds, whole)) {
			return
		}
		whole = l.took(t)
	}
	l.look(t)
}

// resident: another attach would find a payload, and inject nothing.
func (l *life) resident(t *testing.T) bool {
	t.Helper()
	_, payload, _ := harness.Ours()
	return l.Snapshot(t).Maps[payload] > 0
}

// took makes a session and says how long there was something to kill.
func (l *life) took(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	l.session(t)
	return time.Since(began)
}

// momentOf spreads the kills over the whole of what is killed, the more the earlier: an
// attach stops the target in its first part, and every third kill falls into its very first.
func momentOf(round int, whole time.Duration) time.Duration {
	if round%3 == 0 {
		return time.Duration(rand.Int64N(int64(15 * time.Millisecond)))
	}
	r := rand.Float64()
	return time.Duration(r * r * float64(whole))
}

// kill ends before the payload has noticed the death, most times; every fourth
// time only after it has detached by itself.
func (l *life) kill(t *testing.T, after time.Duration) bool {
	t.Helper()
	l.tally.round(t)
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
	state := ""
	if hang.Eventually(func() bool {
		st := l.Status(t)
		state = st.State
		return !st.Resident || state == "dormant" || state == "idle"
	}) {
		return true
	}
	l.tally.find(&l.tally.stuck, "the payload does not detach by itself: %s", state)
	return false
}
