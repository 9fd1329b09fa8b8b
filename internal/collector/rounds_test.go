package collector

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/ring/ringtest"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// TestRounds: a moment counts when two rounds have ended since, and a drain since that.
func TestRounds(t *testing.T) {
	var now, finished uint64
	known := true
	r := rounds{now: func() uint64 { return now }, count: func() (uint64, bool) { return finished, known }}
	for i, step := range []struct {
		now, finished uint64
		full, unknown bool
		want          uint64
	}{
		{now: 100, finished: 7, want: 0},
		{now: 200, finished: 8, want: 0}, // may have begun before 100
		{now: 300, finished: 9, want: 100},
		{now: 400, finished: 9, want: 100},
		{now: 500, finished: 20, full: true, want: 100}, // the worker may have kept records back
		{now: 600, finished: 30, want: 100},
		{now: 700, finished: 32, want: 600},
		{now: 800, finished: 40, want: 600},
		{now: 900, finished: 0, unknown: true, want: 600}, // another recorder's
		{now: 1000, finished: 50, want: 600},
		{now: 1100, finished: 52, want: 1000},
	} {
		now, finished, known = step.now, step.finished, !step.unknown
		r.look()
		r.drained(step.full)
		if r.markNS != step.want {
			t.Errorf("step %d: complete until %d, want %d", i, r.markNS, step.want)
		}
	}
}

// TestWindowsAndAccountsAtOnce: the sink knows a window when it opens, and what was counted
// with each drain.
func TestWindowsAndAccountsAtOnce(t *testing.T) {
	sink, _, err := collect(t, func(p *ringtest.Producer) {
		define(p)
		window(p, ring.WindowOpen, ring.Window{TimeNS: 10})
		ringtest.Put(p, ring.Dispatch{Queue: 1, Launch: 1, StartNS: 20, EndNS: 30})
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(sink.windows) != 1 || sink.windows[0].Closed || sink.windows[0].OpenNS != 10 {
		t.Errorf("windows: %+v", sink.windows)
	}
	want := tracedb.Coverage{Queue: 1, Windows: 1, WindowsOpen: 1, Timed: 1}
	if len(sink.marks) == 0 || len(sink.marks[0].Coverage) != 1 || sink.marks[0].Coverage[0] != want {
		t.Errorf("marks: %+v", sink.marks)
	}
}

// noRecords decodes nothing.
type noRecords struct{}

func (noRecords) Decode(*ring.Record) error        { return nil }
func (noRecords) Flush() error                     { return nil }
func (noRecords) Arrived() (timed, untimed uint64) { return 0, 0 }

// TestCompleteNS: a target that ended without a last record may have kept back calls that are older than its newest
// dispatch, but no dispatch.
func TestCompleteNS(t *testing.T) {
	c := newCollector(&memory{}, nil)
	c.tally.newestNS, c.rounds.markNS, c.lanes.markNS = 200, 150, 140
	if got := c.completeNS(); got != 200 {
		t.Errorf("dispatches only: complete until %d", got)
	}
	c.decoders[3] = noRecords{}
	if got := c.completeNS(); got != 140 {
		t.Errorf("with calls: complete until %d", got)
	}
	c.lanes.markNS = 160
	if got := c.completeNS(); got != 150 {
		t.Errorf("with calls, none of which is held up: complete until %d", got)
	}
}
