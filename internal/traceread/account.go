package traceread

import (
	"cmp"
	"context"
	"slices"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Account is the recorder's final account of a queue.
type Account struct {
	Windows     int64
	WindowsOpen int64 // windows without an end
	Dispatches  int64 // published while it was recorded; with open windows, a lower bound
	Timed       int64
	Untimed     int64
	Unexplained int64 // published, and no record accounts for them; below 0: too many records
	AfterDetach int64 // claimed while it was recorded, published after the detach
	RawBefore   int64 // claimed after the attach, before it was recorded
}

// Counters are the payload's counters that readers use; 0 if not known.
type Counters struct {
	QueuesSeen     int64
	QueuesForeign  int64 // of another tool, or without hardware: never recorded
	RawClaims      int64 // on all queues, also on those that were never recorded
	QueuesExcluded int64 // of GPUs that the recording's filter leaves out: untouched
}

// KindAccount is the recorder's final account of a further kind of record.
type KindAccount struct{ Begun, Timed, Untimed, Unexplained int64 }

// readAccounts reads the final accounts. The payload counts a window's dispatches when the
// window closes: for an open window, the number of recorded dispatches is a lower bound.
func (tr *Trace) readAccounts(ctx context.Context) error {
	return tr.Define(ctx, func(r Row) error {
		var of int64
		var a Account
		err := r.Scan(&of, &a.Windows, &a.WindowsOpen, &a.Dispatches, &a.Timed, &a.Untimed, &a.Unexplained, &a.AfterDetach, &a.RawBefore)
		q := tr.Queues[of]
		if q == nil {
			return err
		}
		for _, n := range []*int64{&a.Windows, &a.WindowsOpen, &a.Dispatches, &a.Timed, &a.Untimed, &a.AfterDetach, &a.RawBefore} {
			*n = max(0, *n)
		}
		if a.WindowsOpen > 0 {
			a.Dispatches = max(a.Dispatches, Sum(a.Timed, a.Untimed))
		}
		q.Account = &a
		s := q.Agent.Session
		if a.Windows > 0 {
			s.QueuesRecorded++
		}
		s.ClaimsKnown = Sum(s.ClaimsKnown, a.RawBefore)
		return err
	}, `SELECT queue_id, windows, windows_open, dispatches, timed, untimed, unexplained, after_detach, raw_before FROM rtl_coverage`)
}

// readCounters uses total() instead of sum(), which fails with "integer overflow" for hostile
// values.
func (tr *Trace) readCounters(ctx context.Context) error {
	return tr.Define(ctx, func(r Row) error {
		var of int64
		var c Counters
		err := r.Scan(&of, &c.QueuesSeen, &c.QueuesForeign, &c.RawClaims, &c.QueuesExcluded)
		if s := tr.sessions[of]; s != nil {
			s.Counters = Counters{max(0, c.QueuesSeen), max(0, c.QueuesForeign), max(0, c.RawClaims), max(0, c.QueuesExcluded)}
		}
		return err
	}, `SELECT session_id, CAST(total(value) FILTER (WHERE name = ?) AS INTEGER), CAST(total(value) FILTER (WHERE name = ?) AS INTEGER),
		CAST(total(value) FILTER (WHERE name = ?) AS INTEGER), CAST(total(value) FILTER (WHERE name = ?) AS INTEGER) FROM rtl_counter GROUP BY session_id`,
		tracedb.CounterQueuesSeen, tracedb.CounterQueuesForeign, tracedb.CounterRawClaims, tracedb.CounterQueuesExcluded)
}

func (tr *Trace) readKindAccounts(ctx context.Context) error {
	if has, err := tracedb.HasTables(tr.DB, "rtl_kind_coverage"); err != nil || !has {
		return err
	}
	return tr.Define(ctx, func(r Row) error {
		var of int64
		var name string
		var a KindAccount
		err := r.Scan(&of, &name, &a.Begun, &a.Timed, &a.Untimed, &a.Unexplained)
		if s := tr.sessions[of]; s != nil {
			if s.Kinds == nil {
				s.Kinds = map[string]KindAccount{}
			}
			s.Kinds[Cut(name, LongestWord)] = a
		}
		return err
	}, "SELECT session_id, kind, begun, timed, untimed, unexplained FROM rtl_kind_coverage")
}

func (tr *Trace) readUnavailable(ctx context.Context) error {
	if has, err := tracedb.HasTables(tr.DB, "rtl_kind_unavailable"); err != nil || !has {
		return err
	}
	return tr.Define(ctx, func(r Row) error {
		var of int64
		var u tracedb.Unavailable
		err := r.Scan(&of, &u.Kind, &u.Reason)
		if s := tr.sessions[of]; s != nil {
			s.Unavailable = append(s.Unavailable, tracedb.Unavailable{Kind: Cut(u.Kind, LongestWord), Reason: Cut(u.Reason, LongestWord)})
		}
		return err
	}, "SELECT session_id, kind, reason FROM rtl_kind_unavailable ORDER BY session_id, kind")
}

// Loss is a number of records of a session that are missing.
type Loss struct {
	Session *Session // nil: not a session of the file
	Cause   string
	Records int64 // 0: not known how many
	Span          // an unknown begin or end is the session's
}

func (tr *Trace) readLosses(ctx context.Context) error {
	err := tr.Define(ctx, func(r Row) error {
		var of int64
		var l Loss
		err := r.Scan(&of, &l.Cause, &l.Records, &l.BeginNS, &l.EndNS)
		l.Cause, l.Records = Cut(l.Cause, LongestWord), max(0, l.Records)
		if l.Session = tr.sessions[of]; l.Session != nil {
			l.Session.RecordsLost = true
			l.BeginNS, l.EndNS = tracedb.LossSpan(l.BeginNS, l.EndNS, l.Session.FromNS(), cmp.Or(l.Session.UntilNS(), LatestNS))
		}
		tr.Losses = append(tr.Losses, l)
		return err
	}, "SELECT session_id, cause, records, coalesce(from_ns, 0), coalesce(until_ns, 0) FROM rtl_loss ORDER BY id")
	slices.SortStableFunc(tr.Losses, func(a, b Loss) int { return cmp.Compare(a.BeginNS, b.BeginNS) })
	return err
}
