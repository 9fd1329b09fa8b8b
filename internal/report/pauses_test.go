package report

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// TestPausesByKernel: the kernel's clock is the one that counts where all sessions
// with a stop have it, with its number of stops; else the tool's. It is named.
func TestPausesByKernel(t *testing.T) {
	own := []uint64{108_000, 107_000} // of a session
	seen := func(stops, total, worst uint64) []tracedb.Counter {
		return []tracedb.Counter{
			{Name: tracedb.CounterSchedulerStops, Value: stops},
			{Name: tracedb.CounterSchedulerTotal, Value: total},
			{Name: tracedb.CounterSchedulerWorst, Value: worst},
		}
	}
	const byTool = " (tool's clock, which includes waits for a processor)"
	for name, c := range map[string]struct {
		sessions [][]uint64
		seen     [][]tracedb.Counter
		want     string
	}{
		"not known":     {[][]uint64{own}, [][]tracedb.Counter{nil}, "2 stops of 1 thread, worst 108 µs, together 215 µs" + byTool},
		"the same":      {[][]uint64{own}, [][]tracedb.Counter{seen(2, 185_000, 96_000)}, " 2 stops of 1 thread, worst 96 µs, together 185 µs (kernel's clock)"},
		"more":          {[][]uint64{own}, [][]tracedb.Counter{seen(5, 185_000, 96_000)}, " 5 stops of 1 thread, worst 96 µs, together 185 µs (kernel's clock)"},
		"one":           {[][]uint64{own[:1]}, [][]tracedb.Counter{seen(1, 96_000, 96_000)}, "one thread once, for 96 µs (kernel's clock)"},
		"one, by ours":  {[][]uint64{own[:1]}, [][]tracedb.Counter{nil}, "one thread once, for 108 µs" + byTool},
		"none":          {[][]uint64{nil}, [][]tracedb.Counter{seen(0, 0, 0)}, "nothing"},
		"none, by ours": {[][]uint64{nil}, [][]tracedb.Counter{nil}, "nothing"},
		"both sessions": {[][]uint64{own, nil}, [][]tracedb.Counter{seen(2, 185_000, 96_000), seen(0, 0, 0)}, "together 185 µs (kernel's clock)"},
		"one of two":    {[][]uint64{own, own}, [][]tracedb.Counter{seen(2, 185_000, 96_000), nil}, "together 430 µs" + byTool},
		"stops of one":  {[][]uint64{own, nil}, [][]tracedb.Counter{seen(2, 185_000, 96_000), nil}, "together 185 µs (kernel's clock)"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Summarize(pausedTrace(t, c.sessions, c.seen), 1)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			s.writePauses(&b)
			if line := strings.TrimSpace(b.String()); !strings.HasSuffix(line, c.want) {
				t.Errorf("%q, want … %q", line, c.want)
			}
			if byKernel := s.Pauses.Clock == KernelClock; byKernel != (s.Pauses.Scheduler != nil) {
				t.Errorf("clock %q, %+v", s.Pauses.Clock, s.Pauses.Scheduler)
			}
		})
	}
}

func pausedTrace(t *testing.T, sessions [][]uint64, seen [][]tracedb.Counter) string {
	t.Helper()
	place, err := tracedb.Check(filepath.Join(t.TempDir(), "t.db"), 0)
	if err != nil {
		t.Fatal(err)
	}
	db, err := tracedb.Create(place)
	if err != nil {
		t.Fatal(err)
	}
	for i, stops := range sessions {
		s, err := db.Begin(tracedb.SessionInfo{PID: uint32(i + 1), Command: "serve"})
		if err != nil {
			t.Fatal(err)
		}
		for _, ns := range stops {
			err = errors.Join(err, s.Pause(tracedb.Pause{TID: 500, DurationNS: ns, Purpose: "attach"}))
		}
		if err := errors.Join(err, s.Counters(seen[i]), s.End(tracedb.End{Reason: "detached"})); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return place.Path
}
