package export

import (
	"context"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Coverage is the account of one session. Time in which records are missing is not idle time.
type Coverage struct {
	Session    int64 `json:"session"`
	PID        int64 `json:"pid"`
	Settled    bool  `json:"settled"`    // false: the recorder has not written the final accounts
	Dispatches int64 `json:"dispatches"` // published while queues were recorded
	Timed      int64 `json:"timed"`
	Filtered   int64 `json:"filtered,omitempty"` // timed, and left out by filters
	Lost       int64 `json:"records_lost"`
	LostMore   bool  `json:"records_lost_unknown"` // and an unknown number of further records
	OpenEnded  int64 `json:"queues_open_ended"`    // windows without an end
	RawClaims  int64 `json:"raw_claims"`           // claims after the attach on queues that were not recorded yet, or never
	Foreign    int64 `json:"queues_foreign"`       // of another tool, or without hardware
	Unrecorded int64 `json:"queues_unrecorded"`    // seen, but never recorded

	Kinds []KindCoverage `json:"kinds,omitempty"` // further kinds of record

	Unfinished string `json:"unfinished,omitempty"`  // why it is not Settled
	CompleteNS int64  `json:"complete_ns,omitempty"` // not Settled: the time after its begin up to which the records are complete
}

// KindCoverage is the account of a kind of record.
type KindCoverage struct {
	Kind  string `json:"kind"`
	Begun int64  `json:"begun"`
	Timed int64  `json:"timed"`
	thing string
}

// of returns the account of a kind; zero: it was not recorded.
func (c Coverage) of(k *kind.Kind) KindCoverage {
	for _, one := range c.Kinds {
		if one.Kind == k.ID.String() {
			return one
		}
	}
	return KindCoverage{}
}

// Complete reports whether the trace has every dispatch of the session's queues, and every
// record of the kinds that were recorded.
func (c Coverage) Complete() bool {
	for _, k := range c.Kinds {
		if k.Begun != k.Timed {
			return false
		}
	}
	return c.Settled && traceread.Sum(c.Timed, c.Filtered) == c.Dispatches && c.Lost == 0 && !c.LostMore && c.OpenEnded == 0 &&
		c.RawClaims == 0 && c.Foreign == 0 && c.Unrecorded == 0
}

// String returns the coverage as text.
func (c Coverage) String() string {
	if !c.Settled && c.CompleteNS == 0 {
		return c.Unfinished + ": what is missing is not known"
	}
	var text []string
	if !c.Settled {
		text = append(text, c.Unfinished, "complete up to "+duration(c.CompleteNS)+" after its begin")
	}
	text = append(text, humanize.Count(c.Timed)+" of "+humanize.Things(c.Dispatches, "dispatch")+" timed")
	if c.Filtered > 0 {
		text = append(text, humanize.Count(c.Filtered)+" filtered out")
	}
	for _, k := range c.Kinds {
		if k.Begun > 0 {
			text = append(text, humanize.Count(k.Timed)+" of "+humanize.Things(k.Begun, k.thing)+" timed")
		}
	}
	for _, gap := range []struct {
		n          int64
		what, text string
	}{
		{c.Lost, "record", "lost"},
		{c.OpenEnded, "queue", "without a seen end"},
		{c.RawClaims, "claim", "where a queue was not recorded yet, or never"},
		{c.Foreign, "queue", "of another tool or without hardware"},
		{c.Unrecorded, "queue", "seen and never recorded"},
	} {
		if gap.n != 0 {
			text = append(text, humanize.Things(gap.n, gap.what)+" "+gap.text)
		}
	}
	if c.LostMore {
		text = append(text, "records lost, not known how many")
	}
	return strings.Join(text, "; ")
}

// coverages returns the coverage of each exported session.
func (tr *trace) coverages() (all []Coverage) {
	for _, s := range tr.sessions {
		all = append(all, *tr.coverage[s])
	}
	return all
}

// addCoverage adds up the accounts of each session's queues, the payload's further counts,
// and the losses.
func (tr *trace) addCoverage() {
	for _, s := range tr.Sessions {
		c := &Coverage{
			Session: s.ID, PID: s.Process.ID.PID, Settled: s.Settled(), Foreign: s.Counters.QueuesForeign,
			RawClaims: max(s.ClaimsKnown, s.Counters.RawClaims), Unrecorded: max(0, s.Counters.QueuesSeen-s.QueuesRecorded),
		}
		for _, k := range all.Kinds {
			if a, settled := s.Kinds[k.ID.String()]; settled {
				c.Kinds = append(c.Kinds, KindCoverage{k.ID.String(), max(0, a.Begun), max(0, a.Timed), k.Thing})
			}
		}
		if c.Unfinished = s.Unfinished(); c.Unfinished != "" {
			c.CompleteNS = max(0, s.UntilNS()-s.FromNS())
		}
		tr.coverage[s] = c
	}
	for _, q := range tr.Queues {
		if c := tr.coverage[q.Agent.Session]; c != nil {
			c.Filtered = traceread.Sum(c.Filtered, q.Filtered)
		}
		if a := q.Account; a != nil {
			c := tr.coverage[q.Agent.Session]
			c.Dispatches = traceread.Sum(c.Dispatches, a.Dispatches)
			c.Timed = traceread.Sum(c.Timed, a.Timed)
			c.OpenEnded = traceread.Sum(c.OpenEnded, a.WindowsOpen)
		}
	}
	for _, l := range tr.Losses {
		if c := tr.coverage[l.Session]; c != nil {
			c.Lost, c.LostMore = traceread.Sum(c.Lost, l.Records), c.LostMore || l.Records == 0
		}
	}
}

// coverageSpan is a time in which a queue was recorded, or was not.
type coverageSpan struct {
	traceread.Span
	what string
}

// Names of coverage spans.
const (
	recorded    = "recorded"
	openEnded   = "recorded; its end was not seen"
	notRecorded = "not recorded: nothing is known here"
)

// coverageSpans returns the spans of a queue over the time of its session.
func coverageSpans(q *queue) []coverageSpan {
	var all []coverageSpan
	s := q.Agent.Session
	reached, end := s.FromNS(), untilNS(s)
	add := func(fromNS, untilNS int64, what string) {
		if untilNS > fromNS && fromNS >= 0 && untilNS <= traceread.LatestNS {
			all = append(all, coverageSpan{traceread.Span{BeginNS: fromNS, EndNS: untilNS}, what})
		}
	}
	for _, w := range q.Windows {
		add(reached, w.OpenedNS, notRecorded)
		closed, what := w.ClosedNS, recorded
		if closed == 0 {
			closed, what = end, openEnded
		}
		add(max(w.OpenedNS, reached), closed, what)
		reached = max(reached, closed)
	}
	add(reached, end, notRecorded)
	return all
}

// off is the name of the time between two windows of a schedule.
const off = "off: not recorded, by the schedule"

// eachOff calls visit for the times between two windows of a schedule, with a session of the process.
func (tr *trace) eachOff(visit func(*traceread.Session, traceread.Span) error) error {
	seen := map[*traceread.Process]bool{}
	for _, s := range tr.sessions {
		if !s.Scheduled || seen[s.Process] {
			continue
		}
		seen[s.Process] = true
		for _, one := range s.Process.Off() {
			if err := visit(s, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachSpan calls visit with the coverage spans of every queue.
func (tr *trace) eachSpan(visit func(*queue, coverageSpan) error) error {
	for _, id := range sortedKeys(tr.queues) {
		q := tr.queues[id]
		for _, one := range coverageSpans(q) {
			if err := visit(q, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// untimed is a run of packets without times.
type untimed struct {
	queue    *queue
	packets  int64
	submitNS int64
	reason   string
}

func (u untimed) String() string {
	return humanize.Things(u.packets, "packet") + " without times: " + u.reason
}

// eachUntimed calls visit for the runs with a known submit time.
func (tr *trace) eachUntimed(ctx context.Context, visit func(untimed) error) error {
	return tr.Each(ctx, func(r traceread.Row) error {
		var u untimed
		var of int64
		if err := r.Scan(&of, &u.packets, &u.submitNS, &u.reason); err != nil {
			return err
		}
		u.reason = traceread.Cut(u.reason, traceread.LongestWord)
		if u.queue = tr.queues[of]; u.queue == nil || u.submitNS < 0 || u.submitNS > traceread.LatestNS {
			return nil
		}
		return visit(u)
	}, `SELECT u.queue_id, u.packets, u.submit_ns, coalesce(r.text, 'no reason given') FROM rtl_untimed u
		LEFT JOIN rtl_reason r ON r.id = u.reason_id WHERE u.submit_ns IS NOT NULL`)
}

// lossText describes a loss.
func lossText(l traceread.Loss) string {
	if l.Records == 0 {
		return "records lost, not known how many: " + l.Cause
	}
	return humanize.Things(l.Records, "record") + " lost: " + l.Cause
}

// eachLoss calls visit for the losses of the file's sessions.
func (tr *trace) eachLoss(visit func(traceread.Loss) error) error {
	for _, l := range tr.Losses {
		if l.Session == nil {
			continue
		}
		if l.EndNS == traceread.LatestNS { // the end of the session is not known
			l.EndNS = max(l.BeginNS, untilNS(l.Session))
		}
		if err := visit(l); err != nil {
			return err
		}
	}
	return nil
}

// pause is a stop of one of the target's threads by the tool.
type pause struct {
	session             *traceread.Session
	tid                 int64
	startNS, durationNS int64
	purpose             string
}

func (tr *trace) eachPause(ctx context.Context, visit func(pause) error) error {
	return tr.Each(ctx, func(r traceread.Row) error {
		var p pause
		var of int64
		if err := r.Scan(&of, &p.tid, &p.startNS, &p.durationNS, &p.purpose); err != nil {
			return err
		}
		p.session, p.purpose = tr.Session(of), traceread.Cut(p.purpose, traceread.LongestWord)
		if p.session == nil || !traceread.Possible(p.startNS, p.durationNS) {
			return nil
		}
		return visit(p)
	}, "SELECT session_id, tid, start_ns, duration_ns, purpose FROM rtl_pause ORDER BY start_ns")
}

func duration(ns int64) string { return humanize.Duration(time.Duration(ns)) }
