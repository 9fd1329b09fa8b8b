package report

import (
	"cmp"
	"database/sql"
	"errors"
	"maps"
	"slices"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

func busyOf(busyNS, recordedNS int64) Busy {
	b := Busy{BusyNS: busyNS, RecordedNS: recordedNS, IdleNS: max(0, recordedNS-busyNS)}
	if recordedNS > 0 {
		b.Percent = 100 * float64(busyNS) / float64(recordedNS)
	}
	return b
}

// recorded is the time in which the window and one of some stays lie.
func (a *analysis) recorded(stays []*stay) int64 {
	var spans []span
	for _, st := range stays {
		spans = append(spans, st.recorded())
	}
	return covered(spans, a.window)
}

func (r *Report) fillGPUs(a *analysis) {
	r.GPUs = []GPU{}
	for _, id := range slices.Sorted(maps.Keys(a.gpus)) {
		g := a.gpus[id]
		one := GPU{
			ID: id, Name: g.name, Place: g.place, Busy: busyOf(g.busy.busyNS, a.recorded(g.stays)),
			GapsInAll: g.gaps.count, LongestGapNS: g.gaps.longestNS, Coverage: Seen{Complete: true},
		}
		for _, q := range g.queues {
			one.Dispatches += q.kernels
			one.Coverage.add(q)
			one.Coverage.Complete = one.Coverage.Complete && !q.stay.session.unseen
		}
		one.Coverage.Complete = one.Coverage.Complete && !a.hides(g.queues, one.RecordedNS)
		one.AtLeast = !one.Coverage.Complete
		g.gaps.settleEdge(one.IdleNS, a.hiddenEdge(g))
		one.Gaps = g.gaps.causes(r.Copies != nil)
		r.GPUs = append(r.GPUs, one)
	}
}

// causes leaves out those that are none. What waits for a copy waits behind a
// barrier, and only recorded copies tell the one from the other.
func (gs *idleness) causes(copies bool) []Cause {
	all := []Cause{}
	for c, t := range gs.byCause {
		if t.totalNS > 0 {
			text := causeTexts[c]
			if cause(c) == causeDependency && !copies {
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
	s.Dispatches = sum(s.Dispatches, one.Dispatches)
	s.Timed = sum(s.Timed, one.Timed)
	s.Complete = s.Complete && one.Complete
}

// seen is the queue's account; where none was settled, what came.
func (q *queue) seen() Seen {
	a := q.account
	if !a.settled {
		return Seen{Dispatches: sum(q.came, q.untimed), Timed: q.came}
	}
	return Seen{
		Dispatches: max(0, a.dispatches), Timed: max(0, a.timed),
		Complete: a.windows > 0 && !a.open && !a.lost && a.timed == a.dispatches && a.rawBefore == 0,
	}
}

func (r *Report) fillQueues(a *analysis) {
	r.Queues = []Queue{}
	for _, id := range slices.Sorted(maps.Keys(a.queues)) {
		q := a.queues[id]
		one := Queue{
			ID: id, HSAID: q.hsaID, GPU: q.gpu.id, PID: q.stay.session.process.pid, Session: q.stay.session.id,
			Dispatches: q.kernels, Busy: busyOf(q.busy.busyNS, covered(q.recorded(), a.window)), Coverage: q.seen(),
		}
		one.Coverage.Complete = one.Coverage.Complete && !a.hides([]*queue{q}, one.RecordedNS)
		r.Queues = append(r.Queues, one)
	}
}

// recorded is the queue's windows, and its kernels' time, which may end later.
func (q *queue) recorded() []span {
	if q.lastNS == 0 {
		return q.windows
	}
	if len(q.windows) == 0 {
		return []span{{q.firstNS, q.lastNS}}
	}
	spans := slices.Clone(q.windows)
	last := &spans[len(spans)-1]
	spans[0].beginNS, last.endNS = min(spans[0].beginNS, q.firstNS), max(last.endNS, q.lastNS)
	return spans
}

func (r *Report) fillPerProcess(a *analysis) {
	r.PerProcess = []PerProcess{}
	for _, p := range a.processes {
		one := PerProcess{
			PID: p.pid, Rank: p.rank, Command: p.command, Host: p.host, Sessions: int64(len(p.sessions)), GPUs: []int64{},
		}
		one.Coverage.Complete = true
		for _, s := range p.sessions {
			one.Coverage.Complete = one.Coverage.Complete && !s.unseen
		}
		var busyNS, recordedNS int64
		for _, sh := range p.shares {
			one.GPUs = append(one.GPUs, sh.gpu.id)
			shareNS := a.recorded(sh.stays)
			busyNS, recordedNS = sum(busyNS, sh.busy.busyNS), sum(recordedNS, shareNS)
			for _, st := range sh.stays {
				one.Coverage.Complete = one.Coverage.Complete && !a.hides(st.queues, shareNS)
				for _, q := range st.queues {
					one.Dispatches += q.kernels
					one.InWindow += q.inside
					one.Coverage.add(q)
				}
			}
		}
		slices.Sort(one.GPUs)
		one.Busy = busyOf(busyNS, recordedNS)
		one.LaunchToStart = p.latency.launchToStart()
		r.PerProcess = append(r.PerProcess, one)
	}
	if len(a.processes) == 1 {
		r.PerProcess[0].LaunchToStart = r.LaunchToStart
	}
}

func (r *Report) fillLongest(db *sql.DB, a *analysis) error {
	r.LongestGaps = []Gap{}
	for i := range a.longest {
		one := &a.longest[i]
		name, err := a.kernels.name(a.kernels.list[one.kernel])
		if err != nil {
			return err
		}
		g := Gap{
			GPU: one.gpu.id, BeginNS: one.fromNS, LengthNS: one.length, Cause: causeNames[one.likely()],
			HostNS: one.parts[causeHost], Next: name, Queue: one.queue.id,
		}
		if one.thread != tracedb.Null {
			err := db.QueryRow("SELECT tid FROM rtl_thread WHERE id = ?", one.thread).Scan(&g.TID)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		r.LongestGaps = append(r.LongestGaps, g)
	}
	return nil
}
