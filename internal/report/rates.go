package report

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/rate"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Rates is at which rate the GPUs took packets from the queues of a process, in one recording of it.
type Rates struct {
	PID     int64        `json:"pid"`
	BegunNS int64        `json:"begun_ns"`
	Before  *Rate        `json:"before"`
	During  *Rate        `json:"during"`
	After   *Rate        `json:"after"`
	Percent float64      `json:"percent"`     // while recording, compared with the other two
	Margin  float64      `json:"uncertainty"` // of Percent: half of the interval in which it lies with 95 %
	Verdict rate.Verdict `json:"verdict"`
}

// Rate is a rate in one phase of a recording.
type Rate struct {
	FromNS      int64   `json:"from_ns,omitempty"`
	UntilNS     int64   `json:"until_ns,omitempty"`
	Packets     int64   `json:"packets"`
	PerSecond   float64 `json:"per_second"`
	Uncertainty float64 `json:"uncertainty"` // of PerSecond: half of the interval in which it lies with 95 %
	Reason      string  `json:"reason,omitempty"`
}

// mostRates limits the recordings of one file whose rates are read.
const mostRates = 4096

// readRates reads the rates, and says what they mean.
func (s *Summary) readRates(tr *traceread.Trace) error {
	has, err := tracedb.HasRates(tr.DB)
	if err != nil || !has {
		return err
	}
	type recording struct{ pid, ticks, begun int64 }
	of := map[recording]int{}
	err = tr.Define(background, func(row traceread.Row) error {
		var at recording
		var phase string
		var one Rate
		err := row.Scan(&at.pid, &at.ticks, &at.begun, &phase, &one.FromNS, &one.UntilNS, &one.Packets, &one.Uncertainty, &one.Reason)
		i, known := of[at]
		if !known && len(of) < mostRates {
			i, known = len(s.Rates), true
			of[at] = i
			s.Rates = append(s.Rates, Rates{PID: at.pid, BegunNS: at.begun})
		}
		if err == nil && known {
			s.Rates[i].set(phase, one)
		}
		return err
	}, `SELECT pid, start_ticks, begun_ns, substr(phase, 1, 16), coalesce(from_ns, 0), coalesce(until_ns, 0), packets, uncertainty,
		substr(coalesce(reason, ''), 1, 256) FROM rtl_rate ORDER BY id`)
	for i := range s.Rates {
		s.Rates[i].compare()
	}
	return err
}

func (r *Rates) set(phase string, one Rate) {
	length := one.UntilNS - one.FromNS
	if one.FromNS < 0 || one.UntilNS > traceread.LatestNS || length < 0 || one.Packets < 0 || !isUncertainty(one.Uncertainty) {
		one = Rate{Reason: "the trace has an impossible one"}
	} else if length > 0 {
		one.PerSecond = float64(one.Packets) / (float64(length) / 1e9)
	}
	switch phase {
	case tracedb.RateBefore:
		r.Before = &one
	case tracedb.RateDuring:
		r.During = &one
	case tracedb.RateAfter:
		r.After = &one
	}
}

// mostUncertain is more than any uncertainty; what is computed from it is still a number.
const mostUncertain = 1e18

// isUncertainty reports whether a value can be an uncertainty; NaN cannot.
func isUncertainty(x float64) bool { return x >= 0 && x <= mostUncertain }

// estimate returns what rate.Compare takes; nil: there is no rate.
func (r *Rate) estimate() *rate.Estimate {
	if r == nil || r.Reason != "" || r.PerSecond == 0 {
		return nil
	}
	return &rate.Estimate{
		FromNS: uint64(r.FromNS), UntilNS: uint64(r.UntilNS), Packets: uint64(r.Packets), PerSecond: r.PerSecond, Uncertainty: r.Uncertainty,
	}
}

func (r *Rates) compare() {
	c := rate.Compare(r.Before.estimate(), r.During.estimate(), r.After.estimate())
	r.Percent, r.Margin, r.Verdict = c.Percent, c.Uncertainty, c.Verdict
}

// verdicts are the words for what is no number.
var verdicts = map[rate.Verdict]string{
	rate.NoDifference: "no difference seen",
	rate.OneSided:     "only one side was measured, so the load itself may have changed",
	rate.LoadChanged:  "before and after differ, so nothing can be said about the recording",
	rate.Unsteady:     "the load is too unsteady to say more; --measure-cost with a longer time may",
}

// writeRates writes the rates of one process; of several, of the one with the largest difference.
func (s *Summary) writeRates(b *bytes.Buffer) {
	if len(s.Rates) == 0 {
		return
	}
	worst := slices.MaxFunc(s.Rates, func(x, y Rates) int {
		return cmp.Or(cmp.Compare(saying(x.Verdict), saying(y.Verdict)), cmp.Compare(math.Abs(x.Percent), math.Abs(y.Percent)))
	})
	line(b, "Rate", "%s", worst.text())
	if len(s.Rates) > 1 {
		line(b, "", "this is pid %d; %s of %s show no difference", worst.PID, humanize.Count(s.alike()), humanize.Things(len(s.Rates), "recording"))
	}
}

// saying sorts verdicts by how much they say.
func saying(v rate.Verdict) int {
	return slices.Index([]rate.Verdict{rate.Unknown, rate.Unsteady, rate.LoadChanged, rate.NoDifference, rate.OneSided, rate.Different}, v)
}

func (s *Summary) alike() (n int) {
	for i := range s.Rates {
		if s.Rates[i].Verdict == rate.NoDifference {
			n++
		}
	}
	return n
}

func (r *Rates) text() string {
	if r.Verdict == rate.Unknown {
		return "not known: " + r.why()
	}
	text := "of packets: "
	for _, phase := range []struct {
		name string
		rate *Rate
	}{{"before", r.Before}, {"after", r.After}} {
		if phase.rate.estimate() != nil {
			text += fmt.Sprintf("%s/s %s, ", humanize.Count(int64(phase.rate.PerSecond+0.5)), phase.name)
		}
	}
	text += fmt.Sprintf("while recorded %s ± %s", signed(r.Percent), humanize.Percent(r.Margin))
	if words := verdicts[r.Verdict]; words != "" {
		text += ": " + words
	}
	return text + r.missing()
}

// missing says why there is no rate before or after.
func (r *Rates) missing() (text string) {
	for _, phase := range []struct {
		name string
		rate *Rate
	}{{"before", r.Before}, {"after", r.After}} {
		if phase.rate != nil && phase.rate.Reason != "" {
			text += "; " + phase.name + ": " + sanitize.Text(phase.rate.Reason)
		}
	}
	return text
}

// signed formats a percentage with its sign.
func signed(percent float64) string {
	text := humanize.Percent(math.Abs(percent))
	switch {
	case text == humanize.Percent(0):
		return "±" + text
	case percent < 0:
		return "−" + text
	}
	return "+" + text
}

// why returns the reason for a rate that is missing.
func (r *Rates) why() string {
	for _, phase := range []struct {
		name string
		rate *Rate
	}{{"while recorded", r.During}, {"before", r.Before}, {"after", r.After}} {
		if phase.rate != nil && phase.rate.Reason != "" {
			return phase.name + ": " + sanitize.Text(phase.rate.Reason)
		}
	}
	return "it was not measured"
}
