// Package soak kills the tool and attaches again by the thousands, and counts
// what came of it. RTL_SOAK=1 for the long form, 10,000 of each; or a number of
// one's own.
package soak

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/apitable"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/harness"
)

const (
	short, long = 100, 10_000

	window = 40 * time.Millisecond // of each recording

	shownEvery     = 500
	findingsEnough = 10 // until then it goes on with another target
)

// number is how many kills, and how many cycles, there are to be.
func number() int {
	switch n, _ := strconv.Atoi(os.Getenv("RTL_SOAK")); n {
	case 0:
		return short
	case 1:
		return long
	default:
		return n
	}
}

// workloads share the number evenly, at the same time. They are gentle: a starved worker
// would lose records and say so, which is not what is looked for here.
var workloads = []harness.Workload{
	{Program: "serve", Args: []string{"--threads", "3", "--streams", "4", "--rate", "50", "--kernels", "16"}},
	{Program: "hsastress", Args: []string{"--threads", "3", "--queues", "2", "--pace", "300", "--seconds", "36000"}},
}

// onEach runs a part of the soak on every workload and prints what it came to.
func onEach(t *testing.T, what string, part func(*testing.T, *tally, harness.Workload, int)) {
	t.Parallel()
	for _, w := range workloads {
		t.Run(w.Program, func(t *testing.T) {
			t.Parallel()
			c := &tally{began: time.Now()}
			part(t, c, w, number()/len(workloads))
			c.report(t, what+", "+w.Program)
		})
	}
}

// A tally is what a soak came to.
type tally struct {
	rounds, killed, targets     int
	attaches                    int // killed ones, of targets without a payload
	harmed, stuck, leaked, lost int
	began                       time.Time
	text                        []string // the first words of each finding
}

func (c *tally) find(count *int, format string, args ...any) {
	*count++
	c.text = append(c.text, fmt.Sprintf("round %d: ", c.rounds)+fmt.Sprintf(format, args...))
}

func (c *tally) findings() int { return c.harmed + c.stuck + c.leaked + c.lost }

// round begins one, and shows every so often how far it is.
func (c *tally) round(t *testing.T) {
	t.Helper()
	c.rounds++
	if c.rounds%shownEvery == 0 {
		t.Logf("%d rounds in %v: %d kills, %d findings", c.rounds, time.Since(c.began).Round(time.Second), c.killed, c.findings())
	}
}

func (c *tally) enough() bool { return c.findings() >= findingsEnough }

// report prints the figures and fails the test for any finding.
func (c *tally) report(t *testing.T, what string) {
	t.Helper()
	for _, line := range c.text {
		t.Error(line)
	}
	fmt.Printf("soak: %s: %d rounds on %d targets in %v: %d kills (%d of them of an injection), %d harmed, %d stuck, %d leaked, %d lost\n",
		what, c.rounds, c.targets, time.Since(c.began).Round(time.Second), c.killed, c.attaches, c.harmed, c.stuck, c.leaked, c.lost)
}

// A life is one target from start to end.
type life struct {
	*harness.Process
	tally  *tally
	before harness.Snapshot
	slots  apitable.Slots
}

func begin(t *testing.T, c *tally, w harness.Workload) *life {
	t.Helper()
	p := harness.Start(t, w)
	c.targets++
	return &life{Process: p, tally: c, before: p.Snapshot(t), slots: p.Slots(t)}
}

// look finds harm: it answers, its work goes on, no thread is stopped or traced.
func (l *life) look(t *testing.T) bool {
	t.Helper()
	progress, err := l.progress()
	if err != nil {
		l.tally.find(&l.tally.harmed, "no answer: %v\n%s", err, l.Output())
		return false
	}
	now := progress
	hang.Eventually(func() bool {
		now, err = l.progress()
		return err != nil || now > progress
	})
	if now <= progress {
		l.tally.find(&l.tally.harmed, "no progress beyond %d: %v\n%s", progress, err, l.Output())
		return false
	}
	stopped := l.Stopped()
	for _, thread := range stopped {
		l.tally.find(&l.tally.stuck, "%s", thread)
	}
	return len(stopped) == 0
}

func (l *life) progress() (n int, err error) {
	text, err := l.Get("/health")
	if err == nil {
		_, err = fmt.Sscanf(text, "ok %d", &n)
	}
	return n, err
}

// session is a whole recording, as the next user would make it.
func (l *life) session(t *testing.T) bool {
	t.Helper()
	run, seen := l.recorded(t)
	defer os.RemoveAll(filepath.Dir(run.Trace))
	s := run.Summary
	if len(s.Losses) > 0 || s.Coverage.Unexplained != 0 || s.Coverage.Surplus != 0 {
		l.tally.find(&l.tally.lost, "%+v, %+v", s.Losses, s.Coverage)
	}
	return seen
}

// recorded makes a recording, and checks what it leaves in the target. The caller removes the trace.
func (l *life) recorded(t *testing.T, args ...string) (_ harness.Run, ok bool) {
	t.Helper()
	return l.checked(t, l.TryRecord(t, window, append([]string{"--buffer-size", "4MiB"}, args...)...))
}

// checked checks a recording, and what it leaves in the target.
func (l *life) checked(t *testing.T, run harness.Run) (_ harness.Run, ok bool) {
	t.Helper()
	seen := run.Code == failure.OK || run.Code == failure.NothingSeen // a short window may be one between two bursts
	if err := run.Decode(); !seen || err != nil {
		l.tally.find(&l.tally.stuck, "the next session ended with %d, %v\n%s", run.Code, err, run.Stderr)
		return run, false
	}
	if left := l.left(t); len(left) > 0 {
		l.tally.find(&l.tally.leaked, "%s", strings.Join(left, ", "))
	}
	if changed := l.Slots(t).Differ(l.slots); len(changed) > 0 {
		l.tally.find(&l.tally.leaked, "the runtime's table differs in %v", changed)
	}
	return run, true
}

// left gives the bootstrap thread of a dead tool the second or two in which it ends by itself.
func (l *life) left(t *testing.T) (left []string) {
	t.Helper()
	hang.Eventually(func() bool {
		left = l.Snapshot(t).Left(l.before)
		return len(left) == 0
	})
	return left
}

// end compares the whole life with the simulator's log.
func (l *life) end(t *testing.T) {
	t.Helper()
	counts := l.Quit(t)
	if dispatched := slices.ContainsFunc(slices.Collect(maps.Values(counts)), func(n uint64) bool { return n > 0 }); !dispatched && !l.HasLog() {
		return
	}
	log := l.Truth(t)
	if len(log.Violations) > 0 {
		l.tally.find(&l.tally.harmed, "%d violations of the queue protocol, such as %v", len(log.Violations), log.Violations[0])
	}
	if err := log.Once.Check(counts); err != nil {
		l.tally.find(&l.tally.harmed, "not executed exactly once: %v", err)
	}
}
