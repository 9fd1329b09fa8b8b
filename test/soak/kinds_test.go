package soak

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

const (
	shortKinds, longKinds = 5, 1500
	settlingKinds         = 3 // sessions, all with every kind
)

// kindWorkloads use each kind of record. They keep no log of their calls, whose memory would grow.
var kindWorkloads = []struct {
	name  string
	start func(t *testing.T) harness.Workload
}{
	{"hipcalls", unlogged(harness.HIPCalls("--threads", "2", "--pace", "4000"))},
	{"serve", unlogged(workloads[0])},
	{"markers", func(t *testing.T) harness.Workload {
		w := harness.Marking(harness.Roctx64(t), "--pace", "4000")
		w.LogsCalls = false
		return w
	}},
	{"allocate", unlogged(harness.Allocator("--threads", "5", "--pace", "4000"))},
}

func unlogged(w harness.Workload) func(*testing.T) harness.Workload {
	w.LogsCalls = false
	return func(*testing.T) harness.Workload { return w }
}

func kindRounds() int {
	switch n, _ := strconv.Atoi(os.Getenv("RTL_SOAK")); n {
	case 0:
		return shortKinds
	case 1:
		return longKinds
	default:
		return n
	}
}

// TestKinds: each session of one target records other kinds, chosen at random, with either policy of
// the buffer. It records those and no others, accounts for each item, and leaves nothing.
func TestKinds(t *testing.T) {
	t.Parallel()
	for _, w := range kindWorkloads {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			c := &tally{began: time.Now()}
			recordKinds(t, c, oneArena(w.start(t)))
			c.report(t, "kinds at random, "+w.name)
		})
	}
}

func recordKinds(t *testing.T, c *tally, w harness.Workload) {
	t.Helper()
	more := func() bool { return c.rounds < kindRounds() }
	for more() && !c.enough() {
		l := &kindLife{life: begin(t, c, w)}
		l.see(t)
		p := plan{settlingKinds, more, func(t *testing.T) bool { return l.session(t, l.next()) }}
		l.cycle(t, p, &life{Process: harness.Start(t, w), tally: c})
	}
}

// A choice is one way to ask for kinds.
type choice struct {
	args     []string
	kinds    map[string]bool
	lossless bool
}

func (c *choice) add(flag string, kinds ...*kind.Kind) {
	c.args = append(c.args, flag)
	for _, k := range kinds {
		c.kinds[k.ID.String()] = true
	}
}

// everything is all kinds, which need the most memory.
func everything() choice {
	c := choice{kinds: map[string]bool{}}
	c.add("--hsa-signal-trace")
	c.add("--sys-trace", all.Kinds...)
	return c.with(true)
}

func (c choice) with(lossless bool) choice {
	if c.lossless = lossless; lossless {
		c.args = append(c.args, "--buffer-policy", "lossless")
	}
	return c
}

func atRandom() choice {
	c := choice{kinds: map[string]bool{}}
	switch rand.IntN(4) {
	case 0:
		m := all.Modes[rand.IntN(len(all.Modes))]
		c.add("--mode="+m.Name, m.Kinds...)
	case 1:
		s := all.Sets[rand.IntN(len(all.Sets))]
		c.add("--"+s.Flag, s.Kinds...)
	default:
		for _, k := range all.Kinds {
			if rand.IntN(3) == 0 {
				c.add("--"+k.Flag, k)
			}
		}
	}
	if rand.IntN(4) == 0 {
		c.add("--hsa-signal-trace", calls.HSACore)
	}
	return c.with(rand.IntN(2) == 0)
}

// kindLife is a target whose sessions record kinds.
type kindLife struct {
	*life
	sessions int
	dormant  harness.Data   // the target's writable data without a session, once a payload is there
	taken    harness.Places // of it, during a session with every kind
}

func (l *kindLife) next() choice {
	if l.sessions <= settlingKinds {
		return everything()
	}
	return atRandom()
}

// see makes a first session, after which the payload is there, and a second one, to see which words
// it replaces.
func (l *kindLife) see(t *testing.T) {
	t.Helper()
	l.session(t, everything())
	l.dormant = l.Data(t)
	r := l.Begin(t, everything().args...)
	r.Says(t, "✓ attached")
	l.taken = l.Data(t).Places()
	r.Interrupt(t)
	r.Wait(t)
}

// session is a recording of the chosen kinds.
func (l *kindLife) session(t *testing.T, c choice) bool {
	t.Helper()
	l.sessions++
	run, ok := l.recorded(t, c.args...)
	defer os.RemoveAll(filepath.Dir(run.Trace))
	return ok && l.isSound(t, run, c)
}

// isSound checks what a recording has, and that it took back all that it replaced.
func (l *kindLife) isSound(t *testing.T, run harness.Run, c choice) bool {
	t.Helper()
	if l.taken != nil {
		now := l.Data(t)
		now.MustBeAsIn(t, l.dormant, l.taken)
		if places := now.Places(); !maps.Equal(places, l.dormant.Places()) {
			l.tally.find(&l.tally.leaked, "%v: %d words lead to the payload, before %d", c.args, len(places), len(l.dormant.Places()))
		}
	}
	tr := harness.ReadTrace(t, run.Trace)
	for _, loss := range tr.Losses {
		t.Logf("session %d, %v: %+v", l.sessions, c.args, loss)
	}
	for _, wrong := range tr.CheckKinds(slices.Sorted(maps.Keys(c.kinds)), c.lossless) {
		l.tally.find(&l.tally.lost, "%v: %s", c.args, wrong)
	}
	return true
}
