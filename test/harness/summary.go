package harness

import (
	"maps"
	"reflect"

	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Summary checks the tool's own figures against the rows, which Add has
// compared with the truth.
func (c *Comparison) Summary(run Run, tr *Trace) {
	s := run.Summary
	reasons := map[string]int64{}
	for _, u := range s.Coverage.Untimed {
		reasons[u.Reason] += u.Packets
	}
	s.Coverage.Untimed = nil
	if want := tr.summedCoverage(); !reflect.DeepEqual(s.Coverage, want) {
		c.wrong("summary", "%+v; the rows say %+v", s.Coverage, want)
	}
	if want := tr.reasons(); !maps.Equal(reasons, want) {
		c.wrong("summary", "untimed %v; the rows say %v", reasons, want)
	}
	c.kernels(s, tr)
	c.losses(s, tr)
	c.pauses(s, tr)
	c.checkCounters(tr)
}

// summedCoverage returns the expected coverage of the summary, without its reasons.
func (tr *Trace) summedCoverage() report.Coverage {
	sum := report.Coverage{
		QueuesSeen: tr.Counters["queues_seen"], QueuesForeign: tr.Counters["queues_foreign"], QueuesExcluded: tr.Counters["queues_excluded"],
	}
	for _, cov := range tr.Coverage {
		if cov.Windows > 0 {
			sum.QueuesRecorded++
		}
		sum.Dispatches += cov.Dispatches
		sum.Timed += cov.Timed
		sum.Unexplained += max(cov.Unexplained, 0)
		sum.Surplus += max(-cov.Unexplained, 0)
		sum.AfterDetach += cov.After
		sum.RawBefore += cov.RawBefore
		sum.WindowsOpen += cov.WindowsOpen
	}
	for _, f := range tr.Filtered {
		sum.Filtered += f.Kernels
	}
	for _, w := range tr.Windows {
		sum.QueuedBefore += w.QueuedBefore
	}
	sum.QueuesSeen = max(sum.QueuesSeen, sum.QueuesRecorded)
	sum.RawUnseen = max(0, tr.Counters["raw_claims"]-sum.RawBefore)
	return sum
}

func (tr *Trace) reasons() map[string]int64 {
	rows := map[string]int64{}
	for _, u := range tr.Untimed {
		if u.Reason != "after-detach" {
			rows[u.Reason] += int64(u.Packets)
		}
	}
	return rows
}

func (c *Comparison) kernels(s report.Summary, tr *Trace) {
	var calls, totalNS, wantNS, onGPUs int64
	for _, k := range s.Kernels {
		calls += k.Calls
		totalNS += k.TotalNS
	}
	for _, d := range tr.Dispatches {
		wantNS += d.EndNS - d.StartNS
	}
	all, timed := int64(len(s.Kernels)) == s.KernelsInAll, int64(len(tr.Dispatches))
	if all && (calls != timed || totalNS != wantNS) {
		c.wrong("summary", "kernels: %d calls, %d ns; the rows say %d, %d ns", calls, totalNS, timed, wantNS)
	}
	for _, g := range s.GPUs {
		onGPUs += g.Dispatches
	}
	if onGPUs != timed {
		c.wrong("summary", "%d dispatches on all GPUs; the rows say %d", onGPUs, timed)
	}
}

func (c *Comparison) losses(s report.Summary, tr *Trace) {
	said, rows := map[string]int64{}, map[string]int64{}
	for _, l := range s.Losses {
		said[l.Cause] += l.Records
	}
	for _, l := range tr.Losses {
		rows[l.Cause] += l.Records
	}
	if !maps.Equal(said, rows) {
		c.wrong("summary", "losses %v; the rows say %v", said, rows)
	}
}

func (c *Comparison) pauses(s report.Summary, tr *Trace) {
	want := report.Pauses{Stops: int64(len(tr.Pauses))}
	threads := map[int64]bool{}
	for _, p := range tr.Pauses {
		threads[p.TID] = true
		want.TotalNS += p.DurationNS
		want.WorstNS = max(want.WorstNS, p.DurationNS)
	}
	want.Threads = int64(len(threads))
	said := s.Pauses
	c.scheduler(said, tr)
	if said.Scheduler, said.Clock = nil, ""; said != want {
		c.wrong("summary", "pauses %+v; the rows say %+v", said, want)
	}
}

// scheduler checks the stops by the kernel's clock, which counts each step of a held thread; the
// trace has them for all sessions or for none.
func (c *Comparison) scheduler(said report.Pauses, tr *Trace) {
	if said.Scheduler == nil {
		return
	}
	stops, total := tr.Counters[tracedb.CounterSchedulerStops], tr.Counters[tracedb.CounterSchedulerTotal]
	if by := said.Scheduler; by.Stops != stops || by.TotalNS != total || by.WorstNS > total {
		c.wrong("summary", "pauses %+v, by the kernel's clock %+v; the rows say %d stops, %d ns", said, *by, stops, total)
	}
}

// checkCounters compares the payload's counters with the trace.
func (c *Comparison) checkCounters(tr *Trace) {
	var app, published, left int64
	for _, f := range tr.Filtered {
		left += f.Kernels
	}
	for _, d := range tr.Dispatches {
		if d.AppSignal {
			app++
		}
	}
	for _, cov := range tr.Coverage {
		published += cov.Dispatches
	}
	pool := int64(len(tr.Dispatches)) - app
	if n := tr.Counters; len(tr.Losses) == 0 && (n["timed_app"]+n["timed_pool"] != app+pool+left || left == 0 && n["timed_app"] != app) {
		c.wrong("summary", "the payload counts %d timed by the application's signals and %d by its own, the trace has %d and %d",
			n["timed_app"], n["timed_pool"], app, pool)
	}
	if n := tr.Counters["dispatches"]; n != published {
		c.wrong("summary", "the payload counts %d dispatches, its windows %d", n, published)
	}
}
