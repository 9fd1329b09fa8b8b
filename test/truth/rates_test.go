package truth

import (
	"math"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/rate"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/simlog"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// ratePackets returns how many packets of a process the GPUs began in a time.
func ratePackets(records []*simlog.Record, r *report.Rate) (n int64) {
	for _, one := range records {
		if int64(one.StartNS) >= r.FromNS && int64(one.StartNS) < r.UntilNS {
			n++
		}
	}
	return n
}

// checkRates compares the rates that the tool has read from outside with what the GPUs did. ringsPackets is how many
// packets the GPUs can have taken and not begun.
func checkRates(t *testing.T, p *harness.Process, run harness.Run, ringsPackets int64) report.Rates {
	t.Helper()
	if len(run.Summary.Rates) != 1 {
		t.Fatalf("%d rates\n%s", len(run.Summary.Rates), run.Stderr)
	}
	records := p.Packets(t)
	r := run.Summary.Rates[0]
	for name, phase := range map[string]*report.Rate{"before": r.Before, "during": r.During, "after": r.After} {
		if phase == nil {
			t.Fatalf("no rate %s: %+v", name, r)
		}
		if phase.Reason != "" {
			t.Logf("%s: %s", name, phase.Reason)
			continue
		}
		seconds := time.Duration(phase.UntilNS - phase.FromNS).Seconds()
		truth := ratePackets(records, phase)
		t.Logf("%s: %d packets in %.2f s, %.0f/s ± %.0f; in truth %d", name, phase.Packets, seconds, phase.PerSecond, phase.Uncertainty, truth)
		if off := math.Abs(float64(phase.Packets - truth)); off > phase.Uncertainty*seconds+float64(ringsPackets) {
			t.Errorf("%s: %d packets, in truth %d", name, phase.Packets, truth)
		}
	}
	t.Logf("%+.2f %% ± %.2f: %s", r.Percent, r.Margin, r.Verdict)
	return r
}

// The rate of packets before, while and after a recording is that of the GPUs' log, also of a load that changes.
func TestRates(t *testing.T) {
	t.Parallel()
	const threads, queues, ring = 2, 2, 64
	length, during := "200ms", 3*time.Second // shorter than ten times the length there is no statement
	if testenv.Long() {
		length, during = "2s", 25*time.Second
	}
	for name, c := range map[string]struct {
		workload harness.Workload
		packets  int64
		slower   bool
	}{
		"steady": {harness.Stress(threads, queues, ring, "--pace", "200", "--kind", "0"), queues * ring, false},
		"slower": {harness.Stress(threads, queues, ring, "--pace", "200", "--kind", "0"), queues * ring, true},
		"serve":  {harness.Workload{Program: "serve", Args: []string{"--threads", "3", "--streams", "4"}}, 4096, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := harness.Start(t, c.workload)
			r := p.Begin(t, "-d", during.String(), "--measure-cost", length)
			if c.slower {
				r.Says(t, "✓ attached")
				p.Throttle(t, r)
			}
			run := r.MustRecord(t)
			p.Quit(t)
			rates := checkRates(t, p, run, c.packets)
			if c.slower && rates.Verdict == rate.NoDifference && math.Abs(rates.Percent) > 20 {
				t.Errorf("%+v", rates)
			}
		})
	}
}

// A queue that is destroyed meanwhile, or a target that ends: no statement.
func TestRatesAbstain(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Stress(2, 2, 64, "--pace", "200", "--kind", "0"))
	r := p.Begin(t, "-d", "1m", "--measure-cost", "200ms")
	r.Says(t, "✓ attached")
	p.Quit(t)
	run := r.Wait(t)
	if err := run.Decode(); err != nil {
		t.Fatal(err)
	}
	if len(run.Summary.Rates) != 1 || run.Summary.Rates[0].After == nil || run.Summary.Rates[0].After.Reason == "" {
		t.Errorf("%+v", run.Summary.Rates)
	}
}

// Each of several processes has its rates.
func TestRatesTogether(t *testing.T) {
	f := harness.StartFleet(t, 2)
	workers := f.Workers(t)
	trace := filepath.Join(t.TempDir(), "trace.db")
	r := harness.NewCommand(t, "record", "--json", "-p", strconv.Itoa(f.PID), "-d", "500ms", "--measure-cost", "200ms", "-o", trace)
	r.Trace = trace
	r.Start(t)
	run := r.MustRecord(t)
	if len(run.Summary.Rates) != len(workers) {
		t.Fatalf("%+v\n%s", run.Summary.Rates, run.Stderr)
	}
	for _, one := range run.Summary.Rates {
		if one.Before == nil || one.During == nil || one.After == nil {
			t.Fatalf("%+v", one)
		}
		t.Logf("pid %d: %+.1f %% ± %.1f: %s (%s; %s; %s)", one.PID, one.Percent, one.Margin, one.Verdict, one.Before.Reason, one.During.Reason, one.After.Reason)
	}
}
