package soak

import (
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

const (
	settling     = 10   // sessions until what is kept for the next ones is there
	growthKiB    = 8192 // of memory, more than a twin's: the runtime's list of signals, and a step of HIP's arena
	growthMaps   = 8
	cyclesAtOnce = 25 // between looks at the target
)

// TestCycles: attach, record, detach, on one target.
func TestCycles(t *testing.T) { onEach(t, "reattach cycles", cycles) }

func cycles(t *testing.T, c *tally, w harness.Workload, number int) {
	t.Helper()
	w = oneArena(w)
	more := func() bool { return c.rounds < number }
	for more() && !c.enough() {
		l := begin(t, c, w)
		l.cycle(t, plan{settling, more, l.session}, &life{Process: harness.Start(t, w), tally: c})
	}
}

// oneArena: glibc's heap grows by steps, each when a thread has had more commands in flight
// than ever before. With one arena for all threads, the steps are the fewest.
func oneArena(w harness.Workload) harness.Workload {
	w.Sim = append(slices.Clone(w.Sim), "MALLOC_ARENA_MAX=1")
	return w
}

// A plan says how many sessions come before the rounds, whether more rounds follow, and what a session is.
type plan struct {
	settling int
	more     func() bool
	session  func(*testing.T) bool
}

// cycle goes on with a target until a finding.
func (l *life) cycle(t *testing.T, p plan, twin *life) {
	t.Helper()
	c, found := l.tally, l.tally.findings()
	for range p.settling {
		p.session(t)
	}
	settled, twinThen := l.Snapshot(t), twin.Snapshot(t)
	for p.more() && c.findings() == found {
		c.round(t)
		if p.session(t) && c.rounds%cyclesAtOnce == 0 {
			l.look(t)
			twin.look(t)
		}
	}
	if c.findings() == found {
		l.flat(t, growth(settled, l.Snapshot(t)), growth(twinThen, twin.Snapshot(t)))
		l.end(t)
		twin.end(t)
	}
}

// growth is what one look at a target has more than an earlier one.
func growth(then, now harness.Snapshot) harness.Snapshot {
	return harness.Snapshot{
		HostKiB: now.HostKiB - then.HostKiB,
		Maps:    map[string]int{anonymous: now.Maps[anonymous] - then.Maps[anonymous]},
	}
}

const anonymous = "anonymous"

// flat compares the growth with that of a twin that does the same work and was never
// attached to. What the runtime shares with the GPU is left out: its pool grows, by 2 MB
// at a time, to the most signals of ours that there were at once, and keeps that.
func (l *life) flat(t *testing.T, grown, twin harness.Snapshot) {
	t.Helper()
	t.Logf("grown by %d KiB and %d anonymous mappings; never attached, by %d KiB and %d",
		grown.HostKiB, grown.Maps[anonymous], twin.HostKiB, twin.Maps[anonymous])
	if more := grown.HostKiB - twin.HostKiB; more > growthKiB {
		l.tally.find(&l.tally.leaked, "resident memory grew by %d KiB", more)
	}
	if more := grown.Maps[anonymous] - twin.Maps[anonymous]; more > growthMaps {
		l.tally.find(&l.tally.leaked, "%d more anonymous mappings", more)
	}
}
