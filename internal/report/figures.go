package report

import (
	"cmp"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/kind/copies"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

func busyOf(busyNS, recordedNS int64) Busy {
	b := Busy{BusyNS: busyNS, RecordedNS: recordedNS, IdleNS: max(0, recordedNS-busyNS)}
	if recordedNS > 0 {
		b.Percent = 100 * float64(busyNS) / float64(recordedNS)
	}
	return b
}

// recorded returns how much of the window at least one of some sessions recorded, in ns.
func (a *analysis) recorded(sessions []*gpuSession) int64 {
	var spans []traceread.Span
	for _, gs := range sessions {
		spans = append(spans, gs.recorded())
	}
	return covered(spans, a.window)
}

func (r *Report) fillGPUs(a *analysis) {
	r.GPUs = []GPU{}
	for _, id := range slices.Sorted(maps.Keys(a.gpus)) {
		g := a.gpus[id]
		one := GPU{
			ID: id, Name: g.name, Place: g.place, Busy: busyOf(g.busy.busyNS, a.recorded(g.sessions)),
			GapsInAll: g.gaps.count, LongestGapNS: g.gaps.longestNS, Coverage: Seen{Complete: true},
		}
		for _, q := range g.queues {
			one.Dispatches += q.kernels
			one.Filtered = traceread.Sum(one.Filtered, q.filtered)
			one.Coverage.add(q)
			one.Coverage.Complete = one.Coverage.Complete && q.session.session.accounted()
		}
		one.Coverage.Complete = one.Coverage.Complete && !a.hides(g.queues, one.RecordedNS)
		one.AtLeast = !one.Coverage.Complete
		g.gaps.settleEdge(one.IdleNS, a.hiddenEdge(g))
		one.Gaps = g.gaps.causes(r.Kinds[copies.Kind.ID.String()] != nil)
		r.GPUs = append(r.GPUs, one)
	}
}

// causes returns the causes that have time. A kernel that waits for a copy waits behind a
// barrier: only recorded copies distinguish the two.
func (gs *idleness) causes(copiesRecorded bool) []Cause {
	all := []Cause{}
	for c, t := range gs.byCause {
		if t.totalNS > 0 {
			text := causeTexts[c]
			if cause(c) == causeDependency && !copiesRecorded {
				text += " (copies were not recorded)"
			}
			all = append(all, Cause{
				Name: causeNames[c], Text: text, Gaps: t.gaps, TotalNS: t.totalNS, LongestNS: t.longestNS,
			})
		}
	}
	slices.SortStableFunc(all, func(a, b Cause) int { return cmp.Compare(b.TotalNS, a.TotalNS) })
	return all
}

func (s *Seen) add(q *queue) {
	one := q.seen()
	s.Dispatches = traceread.Sum(s.Dispatches, one.Dispatches)
	s.Timed = traceread.Sum(s.Timed, one.Timed)
	s.Filtered = traceread.Sum(s.Filtered, one.Filtered)
	s.Complete = s.Complete && one.Complete
}

// seen returns the queue's account or, without a final account, the number of its rows.
func (q *queue) seen() Seen {
	a := q.Account
	if a == nil {
		return Seen{Dispatches: traceread.Sum(traceread.Sum(q.came, q.Filtered), q.untimed), Timed: q.came, Filtered: q.Filtered}
	}
	return Seen{
		Dispatches: a.Dispatches, Timed: a.Timed, Filtered: q.Filtered,
		Complete: a.Windows > 0 && a.WindowsOpen == 0 && a.Unexplained == 0 && traceread.Sum(a.Timed, q.Filtered) == a.Dispatches && a.RawBefore == 0,
	}
}

func (r *Report) fillQueues(a *analysis) {
	r.Queues = []Queue{}
	for _, id := range slices.Sorted(maps.Keys(a.queues)) {
		q := a.queues[id]
		one := Queue{
			ID: id, HSAID: q.HSAID, GPU: q.gpu.id, PID: q.session.session.process.ID.PID, Session: q.session.session.ID,
			Dispatches: q.kernels, Filtered: q.filtered, Busy: busyOf(q.busy.busyNS, covered(q.recorded(), a.window)), Coverage: q.seen(),
		}
		one.Coverage.Complete = one.Coverage.Complete && !a.hides([]*queue{q}, one.RecordedNS)
		r.Queues = append(r.Queues, one)
	}
}

// recorded returns the times in the declared window in which the queue was recorded. They
// include kernels that end after the queue's own window.
func (q *queue) recorded() (spans []traceread.Span) {
	declared := q.session.recorded()
	for _, w := range q.Windows {
		s := traceread.Span{BeginNS: w.OpenedNS, EndNS: w.ClosedNS}
		if s.EndNS == 0 {
			s.EndNS = declared.EndNS
		}
		spans = append(spans, s)
	}
	if q.lastNS > 0 && len(spans) == 0 {
		spans = append(spans, traceread.Span{BeginNS: q.firstNS, EndNS: q.lastNS})
	}
	if q.lastNS > 0 {
		first, last := &spans[0], &spans[len(spans)-1]
		first.BeginNS, last.EndNS = min(first.BeginNS, q.firstNS), max(last.EndNS, q.lastNS)
	}
	for i := range spans {
		spans[i] = spans[i].Clip(declared)
	}
	return spans
}

func (r *Report) fillPerProcess(a *analysis) {
	r.PerProcess = []PerProcess{}
	for _, p := range a.processes {
		one := PerProcess{
			PID: p.ID.PID, Rank: p.Rank, Command: p.Command, Host: p.ID.Host, Sessions: int64(len(p.sessions)), GPUs: []int64{},
		}
		one.Coverage.Complete = true
		for _, s := range p.sessions {
			one.Coverage.Complete = one.Coverage.Complete && s.accounted()
		}
		var busyNS, recordedNS int64
		for _, u := range p.uses {
			one.GPUs = append(one.GPUs, u.gpu.id)
			useNS := a.recorded(u.sessions)
			busyNS, recordedNS = traceread.Sum(busyNS, u.busy.busyNS), traceread.Sum(recordedNS, useNS)
			for _, gs := range u.sessions {
				one.Coverage.Complete = one.Coverage.Complete && !a.hides(gs.queues, useNS)
				for _, q := range gs.queues {
					one.Dispatches += q.kernels
					one.InWindow += q.inside
					one.Coverage.add(q)
				}
			}
		}
		slices.Sort(one.GPUs)
		one.Busy = busyOf(busyNS, recordedNS)
		one.LaunchToStart = launchToStart(p.latency)
		r.PerProcess = append(r.PerProcess, one)
	}
	if len(a.processes) == 1 {
		r.PerProcess[0].LaunchToStart = r.LaunchToStart
	}
}

func (r *Report) fillLongest(tr *traceread.Trace, a *analysis) error {
	r.LongestGaps = []Gap{}
	for i := range a.longest.gaps {
		one := &a.longest.gaps[i]
		name, err := a.kernels.numbered(one.kernel)
		if err != nil {
			return err
		}
		g := Gap{
			GPU: one.gpu.id, BeginNS: one.fromNS, LengthNS: one.length, Cause: causeNames[one.likely()],
			HostNS: one.parts[causeHost], Next: name, Queue: one.queue.ID,
		}
		if one.thread != tracedb.Null {
			err := tr.DB.QueryRow("SELECT tid FROM rtl_thread WHERE id = ?", one.thread).Scan(&g.TID)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		r.LongestGaps = append(r.LongestGaps, g)
	}
	return nil
}
