package report

import (
	"bytes"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/rate"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// ratedTrace returns a trace with the rates of processes.
func ratedTrace(t *testing.T, processes ...[]tracedb.Rate) string {
	t.Helper()
	place, err := tracedb.Check(filepath.Join(t.TempDir(), "t.db"), 0)
	if err != nil {
		t.Fatal(err)
	}
	db, err := tracedb.Create(place)
	if err != nil {
		t.Fatal(err)
	}
	for i, rates := range processes {
		if err := db.Rates(uint32(i+1), 7, second, rates); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return place.Path
}

// rates returns the rates of one process, of a second each.
func rates(before, during, after uint64, uncertainty float64) []tracedb.Rate {
	one := func(phase string, from, packets uint64) tracedb.Rate {
		return tracedb.Rate{Phase: phase, FromNS: from * second, UntilNS: (from + 1) * second, Packets: packets, Uncertainty: uncertainty}
	}
	return []tracedb.Rate{one(tracedb.RateBefore, 1, before), one(tracedb.RateDuring, 2, during), one(tracedb.RateAfter, 3, after)}
}

// TestRates: what the summary says of rates, and when it says nothing.
func TestRates(t *testing.T) {
	missing := rates(5000, 5000, 5000, 50)
	missing[0].Reason, missing[2].Reason = "it was too short", "the target has ended"
	noAfter := rates(5000, 4000, 0, 50)
	noAfter[2].Reason = "the target has ended"
	impossible, negative, huge := rates(5000, 5000, 5000, math.Inf(1)), rates(5000, 5000, 5000, -1), rates(5000, 5000, 5000, 1e300)
	for name, c := range map[string]struct {
		processes [][]tracedb.Rate
		verdict   rate.Verdict
		want      string
	}{
		"the same":      {[][]tracedb.Rate{rates(5000, 4990, 5010, 50)}, rate.NoDifference, "Rate       of packets: 5,000/s before, 5,010/s after, while recorded −0.3% ± 1.4%: no difference seen\n"},
		"slower":        {[][]tracedb.Rate{rates(5000, 4000, 5000, 50)}, rate.Different, "while recorded −20.0% ± 1.3%\n"},
		"faster":        {[][]tracedb.Rate{rates(5000, 6000, 5000, 50)}, rate.Different, "while recorded +20.0% ± 1.6%\n"},
		"load changed":  {[][]tracedb.Rate{rates(5000, 4000, 4000, 50)}, rate.LoadChanged, "before and after differ, so nothing can be said about the recording\n"},
		"unsteady":      {[][]tracedb.Rate{rates(5000, 4000, 5000, 900)}, rate.Unsteady, "too unsteady"},
		"no after":      {[][]tracedb.Rate{noAfter}, rate.OneSided, "of packets: 5,000/s before, while recorded −20.0% ± 1.3%: only one side was measured, so the load itself may have changed; after: the target has ended\n"},
		"no base":       {[][]tracedb.Rate{missing}, rate.Unknown, "not known: before: it was too short\n"},
		"impossible":    {[][]tracedb.Rate{impossible}, rate.Unknown, "not known: while recorded: the trace has an impossible one\n"},
		"negative":      {[][]tracedb.Rate{negative}, rate.Unknown, "not known: while recorded: the trace has an impossible one\n"},
		"huge":          {[][]tracedb.Rate{huge}, rate.Unknown, "not known: while recorded: the trace has an impossible one\n"},
		"two processes": {[][]tracedb.Rate{rates(5000, 5000, 5000, 50), rates(5000, 4000, 5000, 50)}, rate.NoDifference, "this is pid 2; 1 of 2 recordings show no difference\n"},
		"none":          {nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Summarize(ratedTrace(t, c.processes...), 1)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			s.writeRates(&b)
			if !strings.Contains(b.String(), c.want) || c.want == "" && b.Len() > 0 {
				t.Errorf("%q, want %q", b.String(), c.want)
			}
			if len(s.Rates) > 0 && s.Rates[0].Verdict != c.verdict {
				t.Errorf("%+v", s.Rates[0])
			}
			if err := s.WriteJSON(&b); err != nil {
				t.Error(err)
			}
		})
	}
}
