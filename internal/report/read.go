package report

import (
	"cmp"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

func (s *Summary) fillSessions(tr *traceread.Trace) error {
	s.Sessions = []Session{}
	for _, one := range tr.Sessions {
		p := one.Process
		s.Sessions = append(s.Sessions, Session{
			ID: one.ID, PID: p.ID.PID, Command: p.Command, Host: p.ID.Host, BegunNS: one.BegunNS,
			ArmedNS: one.ArmedNS, DetachedNS: one.DetachedNS, Complete: one.Settled(), EndReason: one.EndReason,
			InProgress: one.State == traceread.InProgress, WindowStartNS: one.FromNS(), WindowEndNS: one.UntilNS(), session: one,
		})
	}
	return s.fillTriggers(tr)
}

// fillTriggers adds what has made a flight recorder write the sessions.
func (s *Summary) fillTriggers(tr *traceread.Trace) error {
	for i := range s.Sessions {
		t, err := tracedb.TriggerOf(tr.DB, s.Sessions[i].ID)
		if err != nil {
			return err
		}
		if t != nil {
			s.Sessions[i].Trigger = &Trigger{t.Number, t.Expression, t.Value, t.FiredNS, t.LimitedBy, t.Older, t.Ignored}
		}
	}
	return nil
}

// fillCoverage adds up the final accounts; countCutOff adds the rows of queues without one.
func (s *Summary) fillCoverage(tr *traceread.Trace) {
	c := &s.Coverage
	for _, q := range tr.Queues {
		if q.Account != nil {
			c.add(q.Account)
		}
	}
	for _, one := range tr.Sessions {
		// Without counters of a session, only the recorded queues are known.
		c.QueuesSeen = traceread.Sum(c.QueuesSeen, max(one.Counters.QueuesSeen, one.QueuesRecorded))
		c.QueuesForeign = traceread.Sum(c.QueuesForeign, one.Counters.QueuesForeign)
		c.QueuesExcluded = traceread.Sum(c.QueuesExcluded, one.Counters.QueuesExcluded)
		c.RawUnseen = traceread.Sum(c.RawUnseen, one.UnseenClaims())
	}
}

func (c *Coverage) add(a *traceread.Account) {
	if a.Windows > 0 {
		c.QueuesRecorded++
	}
	for _, one := range []struct {
		into *int64
		n    int64
	}{
		{&c.Dispatches, a.Dispatches},
		{&c.Timed, a.Timed},
		{&c.Unexplained, max(0, a.Unexplained)},
		{&c.Surplus, max(0, -max(a.Unexplained, -traceread.LatestNS))},
		{&c.AfterDetach, a.AfterDetach},
		{&c.RawBefore, a.RawBefore},
		{&c.WindowsOpen, a.WindowsOpen},
	} {
		*one.into = traceread.Sum(*one.into, one.n)
	}
}

// countCutOff adds the sessions whose recorder was killed before it wrote final accounts.
func (s *Summary) countCutOff(a *analysis) {
	c := &s.Coverage
	for _, q := range a.queues {
		if q.session.session.Settled() || q.Account != nil {
			continue
		}
		c.QueuesRecorded++
		c.QueuesSeen++
		c.WindowsOpen++
		c.Dispatches = traceread.Sum(c.Dispatches, traceread.Sum(traceread.Sum(q.came, q.Filtered), q.untimed))
		c.Timed += q.came
	}
	c.QueuesSeen = max(c.QueuesSeen, c.QueuesRecorded)
}

func (s *Summary) readUntimed(tr *traceread.Trace) error {
	s.Coverage.Untimed = []Untimed{}
	return tr.Define(background, func(r traceread.Row) error {
		var u Untimed
		err := r.Scan(&u.Reason, &u.Text, &u.Packets)
		s.Coverage.Untimed = append(s.Coverage.Untimed, u)
		return err
	}, `SELECT r.name, r.text, CAST(total(u.packets) AS INTEGER) AS packets FROM rtl_untimed u JOIN rtl_reason r ON r.id = u.reason_id
		WHERE r.name <> 'after-detach' GROUP BY r.id ORDER BY packets DESC`)
}

// fillUnavailable counts the sessions by kind and reason, the first one first.
func (s *Summary) fillUnavailable(tr *traceread.Trace) {
	for _, session := range tr.Sessions {
		for _, u := range session.Unavailable {
			at := slices.IndexFunc(s.Unavailable, func(one Unavailable) bool { return one.Kind == u.Kind && one.Reason == u.Reason })
			if at < 0 {
				at = len(s.Unavailable)
				s.Unavailable = append(s.Unavailable, Unavailable{Kind: u.Kind, Reason: u.Reason})
			}
			s.Unavailable[at].Sessions++
		}
	}
}

// fillLosses sums up the losses by cause, the most records first.
func (s *Summary) fillLosses(tr *traceread.Trace) {
	s.Losses = []Loss{}
	byCause := map[string]int{}
	for _, l := range tr.Losses {
		at, known := byCause[l.Cause]
		if !known {
			at = len(s.Losses)
			byCause[l.Cause] = at
			s.Losses = append(s.Losses, Loss{Cause: l.Cause})
		}
		s.Losses[at].Records = traceread.Sum(s.Losses[at].Records, l.Records)
	}
	slices.SortFunc(s.Losses, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(b.Records, a.Records), cmp.Compare(a.Cause, b.Cause))
	})
}

func (s *Summary) readPauses(tr *traceread.Trace) error {
	p := &s.Pauses
	err := tr.DB.QueryRow(`SELECT count(*), count(DISTINCT session_id << 32 | tid), coalesce(sum(duration_ns), 0),
		coalesce(max(duration_ns), 0) FROM rtl_pause`).Scan(&p.Stops, &p.Threads, &p.TotalNS, &p.WorstNS)
	if err != nil {
		return err
	}
	return s.readScheduler(tr)
}

// readScheduler reads the stops by the kernel's clock. It sets Scheduler only if every
// session with a pause has these counters.
func (s *Summary) readScheduler(tr *traceread.Trace) error {
	var seen Scheduler
	var sessions, without int64
	err := tr.DB.QueryRow(`SELECT count(*) FILTER (WHERE name = ?1), CAST(total(value) FILTER (WHERE name = ?1) AS INTEGER),
			CAST(total(value) FILTER (WHERE name = ?2) AS INTEGER), CAST(coalesce(max(value) FILTER (WHERE name = ?3), 0) AS INTEGER),
			(SELECT count(DISTINCT session_id) FROM rtl_pause
				WHERE session_id NOT IN (SELECT session_id FROM rtl_counter WHERE name = ?1))
		FROM rtl_counter`, tracedb.CounterSchedulerStops, tracedb.CounterSchedulerTotal, tracedb.CounterSchedulerWorst).
		Scan(&sessions, &seen.Stops, &seen.TotalNS, &seen.WorstNS, &without)
	s.Pauses.Clock = ToolClock
	if err == nil && sessions > 0 && without == 0 {
		s.Pauses.Scheduler, s.Pauses.Clock = &seen, KernelClock
	}
	return err
}
