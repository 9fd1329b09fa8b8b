package soak

import (
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

const (
	settling     = 10   // sessions until what is kept for the next ones is there
	growthKiB    = 4096 // of resident memory: the runtime's own, and noise
	growthMaps   = 8
	cyclesAtOnce = 25 // between looks at the target
)

// TestCycles: attach, record, detach, on one target of each kind.
func TestCycles(t *testing.T) {
	c := &tally{began: time.Now()}
	for i := range workloads {
		for until := rounds() * (i + 1) / len(workloads); c.goesOn(until); {
			cycles(t, c, workloads[i], until)
		}
	}
	c.report(t, "reattach cycles")
}

func cycles(t *testing.T, c *tally, w harness.Workload, until int) {
	t.Helper()
	l, found := begin(t, c, w), c.findings()
	for range settling {
		l.session(t)
	}
	settled := l.Snapshot(t)
	for c.rounds < until && c.findings() == found {
		c.rounds++
		if l.session(t) && c.rounds%cyclesAtOnce == 0 {
			l.look(t)
		}
	}
	if c.findings() == found {
		l.flat(t, settled)
		l.end(t)
	}
}

func (l *life) flat(t *testing.T, then harness.Snapshot) {
	t.Helper()
	now := l.Snapshot(t)
	t.Logf("RSS %d KiB, then %d; %d anonymous mappings, then %d", then.RSSKiB, now.RSSKiB, then.Maps["anonymous"], now.Maps["anonymous"])
	if grown := now.RSSKiB - then.RSSKiB; grown > growthKiB {
		l.tally.find(&l.tally.leaked, "RSS grew by %d KiB", grown)
	}
	if grown := now.Maps["anonymous"] - then.Maps["anonymous"]; grown > growthMaps {
		l.tally.find(&l.tally.leaked, "%d more anonymous mappings", grown)
	}
}
