package export

import (
	"context"
	"database/sql"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Coverage is what was seen in one session. What is missing is not idle time.
type Coverage struct {
	Session    int64 `json:"session"`
	PID        int64 `json:"pid"`
	Settled    bool  `json:"settled"`    // false: the recorder was killed; only timed is known
	Dispatches int64 `json:"dispatches"` // published while queues were recorded
	Timed      int64 `json:"timed"`
	Lost       int64 `json:"records_lost"`
	LostMore   bool  `json:"records_lost_unknown"` // and further ones, not known how many
	OpenEnded  int64 `json:"queues_open_ended"`    // whose end was not seen
	RawClaims  int64 `json:"raw_claims"`           // after the attach, on queues that were not recorded yet, or never
	Foreign    int64 `json:"queues_foreign"`       // of another tool, or without hardware
	Unrecorded int64 `json:"queues_unrecorded"`    // seen, and never recorded

	Copies      int64 `json:"copies,omitempty"` // begun while they were recorded
	CopiesTimed int64 `json:"copies_timed,omitempty"`
}

// Complete says that every dispatch of the session's queues is there, and every copy
// if those were recorded.
func (c Coverage) Complete() bool {
	return c.Settled && c.Timed == c.Dispatches && c.Lost == 0 && !c.LostMore && c.OpenEnded == 0 &&
		c.RawClaims == 0 && c.Foreign == 0 && c.Unrecorded == 0 && c.Copies == c.CopiesTimed
}

// String says it in words, for people.
func (c Coverage) String() string {
	if !c.Settled {
		return "the recorder was killed: what is missing is not known"
	}
	text := []string{humanize.Count(c.Timed) + " of " + humanize.Things(c.Dispatches, "dispatch") + " timed"}
	if c.Copies > 0 {
		text = append(text, humanize.Count(c.CopiesTimed)+" of "+humanize.Things(c.Copies, "copy")+" timed")
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

func (tr *trace) coverages() []Coverage {
	var all []Coverage
	for _, s := range tr.sessions {
		all = append(all, s.coverage)
	}
	return all
}

// readCoverage adds up the accounts of each session. total() and not sum():
// hostile counts must not end in "integer overflow".
func (tr *trace) readCoverage(ctx context.Context) error {
	for _, s := range tr.sessions {
		s.coverage = Coverage{Session: s.id, PID: s.pid, Settled: s.endedNS > 0}
	}
	for _, read := range []func(context.Context) error{tr.readAccounts, tr.readCounters, tr.readLosses, tr.readCopyAccounts} {
		if err := read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readAccounts takes what was settled for each queue. Unrecorded becomes the
// negative number of the recorded ones; readCounters adds those that were seen.
func (tr *trace) readAccounts(ctx context.Context) error {
	return tr.each(ctx, func(r *sql.Rows) error {
		var of int64
		var c Coverage
		err := r.Scan(&of, &c.Dispatches, &c.Timed, &c.OpenEnded, &c.RawClaims, &c.Unrecorded)
		if s := tr.byID[of]; s != nil {
			c.Session, c.PID, c.Settled = s.id, s.pid, s.coverage.Settled
			s.coverage = c
		}
		return err
	}, `SELECT q.session_id,
		CAST(total(CASE WHEN windows_open > 0 THEN max(dispatches, timed + untimed) ELSE dispatches END) AS INTEGER),
		CAST(total(timed) AS INTEGER), CAST(total(windows_open) AS INTEGER),
		CAST(total(raw_before) AS INTEGER), -count(*) FILTER (WHERE windows > 0) FROM rtl_coverage c JOIN rtl_queue q ON q.id = c.queue_id GROUP BY q.session_id`)
}

// readCounters adds what the payload counted and no queue's account holds.
func (tr *trace) readCounters(ctx context.Context) error {
	err := tr.each(ctx, func(r *sql.Rows) error {
		var of, seen, claims, foreign int64
		err := r.Scan(&of, &seen, &claims, &foreign)
		if s := tr.byID[of]; s != nil {
			c := &s.coverage
			c.Unrecorded, c.RawClaims, c.Foreign = c.Unrecorded+seen, max(c.RawClaims, claims), foreign
		}
		return err
	}, `SELECT session_id, CAST(total(value) FILTER (WHERE name = ?) AS INTEGER), CAST(total(value) FILTER (WHERE name = ?) AS INTEGER),
		CAST(total(value) FILTER (WHERE name = ?) AS INTEGER) FROM rtl_counter GROUP BY session_id`,
		tracedb.CounterQueuesSeen, tracedb.CounterRawClaims, tracedb.CounterQueuesForeign)
	for _, s := range tr.sessions {
		s.coverage.Unrecorded = max(0, s.coverage.Unrecorded) // the counters come last, or not at all
	}
	return err
}

func (tr *trace) readLosses(ctx context.Context) error {
	return tr.each(ctx, func(r *sql.Rows) error {
		var of, lost int64
		var more bool
		err := r.Scan(&of, &lost, &more)
		if s := tr.byID[of]; s != nil {
			s.coverage.Lost, s.coverage.LostMore = lost, more
		}
		return err
	}, "SELECT session_id, CAST(total(max(records, 0)) AS INTEGER), coalesce(min(records), 0) <= 0 FROM rtl_loss GROUP BY session_id")
}

// A span is a stretch of time in which a queue was recorded, or was not.
type span struct {
	fromNS, untilNS int64
	what            string
}

// What spans are called.
const (
	recorded    = "recorded"
	openEnded   = "recorded; its end was not seen"
	notRecorded = "not recorded: nothing is known here"
)

// spans covers a session's time for one queue, from its windows.
func spans(s *session, windows []window) []span {
	var all []span
	reached := s.fromNS()
	add := func(fromNS, untilNS int64, what string) {
		if untilNS > fromNS && fromNS >= 0 && untilNS <= latest {
			all = append(all, span{fromNS, untilNS, what})
		}
	}
	for _, w := range windows {
		add(reached, w.openedNS, notRecorded)
		switch from := max(w.openedNS, reached); {
		case w.closed:
			add(from, w.closedNS, recorded)
			reached = max(reached, w.closedNS)
		default:
			add(from, s.endNS(), openEnded)
			reached = max(reached, s.endNS())
		}
	}
	add(reached, s.endNS(), notRecorded)
	return all
}

type window struct {
	openedNS, closedNS int64
	closed             bool
}

// mostWindows bounds the windows of one queue.
const mostWindows = 1 << 16

// eachSpan calls visit with what was recorded of every queue, and what was not.
func (tr *trace) eachSpan(ctx context.Context, visit func(*queue, span) error) error {
	var of *queue
	var windows []window
	flush := func() error {
		if of == nil {
			return nil
		}
		for _, one := range spans(of.agent.session, windows) {
			if err := visit(of, one); err != nil {
				return err
			}
		}
		return nil
	}
	err := tr.each(ctx, func(r *sql.Rows) error {
		var id int64
		var opened, closed sql.NullInt64
		if err := r.Scan(&id, &opened, &closed); err != nil {
			return err
		}
		if q := tr.queues[id]; q != of {
			if err := flush(); err != nil {
				return err
			}
			of, windows = q, windows[:0]
		}
		if opened.Valid && len(windows) < mostWindows {
			windows = append(windows, window{opened.Int64, closed.Int64, closed.Valid})
		}
		return nil
	}, `SELECT q.id, w.opened_ns, w.closed_ns FROM rtl_queue q LEFT JOIN rtl_window w ON w.queue_id = q.id
		ORDER BY q.id, w.opened_ns`)
	if err != nil {
		return err
	}
	return flush()
}

// An untimed is a run of packets without times.
type untimed struct {
	queue    *queue
	packets  int64
	submitNS int64
	reason   string
}

func (u untimed) String() string {
	return humanize.Things(u.packets, "packet") + " without times: " + u.reason
}

// eachUntimed calls visit for those whose submit is known.
func (tr *trace) eachUntimed(ctx context.Context, visit func(untimed) error) error {
	return tr.each(ctx, func(r *sql.Rows) error {
		var u untimed
		var of int64
		if err := r.Scan(&of, &u.packets, &u.submitNS, &u.reason); err != nil {
			return err
		}
		u.reason = cut(u.reason, longestWord)
		if u.queue = tr.queues[of]; u.queue == nil || u.submitNS < 0 || u.submitNS > latest {
			return nil
		}
		return visit(u)
	}, `SELECT u.queue_id, u.packets, u.submit_ns, coalesce(r.text, 'no reason given') FROM rtl_untimed u
		LEFT JOIN rtl_reason r ON r.id = u.reason_id WHERE u.submit_ns IS NOT NULL`)
}

// A loss is a number of records that are missing; 0: not known how many.
type loss struct {
	session         *session
	cause           string
	records         int64
	fromNS, untilNS int64
}

func (l loss) String() string {
	if l.records <= 0 {
		return "records lost, not known how many: " + l.cause
	}
	return humanize.Things(l.records, "record") + " lost: " + l.cause
}

// eachLoss calls visit for the losses.
func (tr *trace) eachLoss(ctx context.Context, visit func(loss) error) error {
	return tr.each(ctx, func(r *sql.Rows) error {
		var l loss
		var of int64
		if err := r.Scan(&of, &l.cause, &l.records, &l.fromNS, &l.untilNS); err != nil {
			return err
		}
		l.cause = cut(l.cause, longestWord)
		if l.session = tr.byID[of]; l.session == nil {
			return nil
		}
		l.fromNS, l.untilNS = tracedb.LossSpan(l.fromNS, l.untilNS, l.session.fromNS(), l.session.endNS())
		return visit(l)
	}, "SELECT session_id, cause, records, coalesce(from_ns, 0), coalesce(until_ns, 0) FROM rtl_loss")
}

// A pause is a stop of one of the target's threads by the tool.
type pause struct {
	session             *session
	tid                 int64
	startNS, durationNS int64
	purpose             string
}

func (tr *trace) eachPause(ctx context.Context, visit func(pause) error) error {
	return tr.each(ctx, func(r *sql.Rows) error {
		var p pause
		var of int64
		if err := r.Scan(&of, &p.tid, &p.startNS, &p.durationNS, &p.purpose); err != nil {
			return err
		}
		p.session, p.purpose = tr.byID[of], cut(p.purpose, longestWord)
		if p.session == nil || p.startNS < 0 || p.startNS > latest || p.durationNS < 0 || p.durationNS > latest-p.startNS {
			return nil
		}
		return visit(p)
	}, "SELECT session_id, tid, start_ns, duration_ns, purpose FROM rtl_pause ORDER BY start_ns")
}
