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
		cycles(t, c, rounds()*(i+1)/len(workloads))
	}
	c.report(t, "reattach cycles")
}

func cycles(t *testing.T, c *tally, until int) {
	l := begin(t, c)
	for range settling {
		l.session(t)
	}
	settled := l.Snapshot(t)
	for c.rounds < until && c.findings() == 0 {
		c.rounds++
		if l.session(t) && c.rounds%cyclesAtOnce == 0 {
			l.look(t)
		}
	}
	if c.findings() == 0 {
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
