package report

import (
	"database/sql"
	"fmt"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// each calls scan for every row of a query. What has very many is not read on.
func each(db *sql.DB, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := db.Query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for n := 0; rows.Next(); n++ {
		if n == mostDefinitions {
			return fmt.Errorf("over %d rows: %w", mostDefinitions, ErrImpossible)
		}
		if err := scan(rows); err != nil {
			return fmt.Errorf("%w: %w", ErrImpossible, err)
		}
	}
	return rows.Err()
}

func (s *Summary) readSessions(db *sql.DB) error {
	s.Sessions = []Session{}
	return each(db, func(r *sql.Rows) error {
		var one Session
		s.Sessions = append(s.Sessions, one)
		last := &s.Sessions[len(s.Sessions)-1]
		return r.Scan(&last.ID, &last.PID, &last.Command, &last.Host, &last.BegunNS,
			&last.ArmedNS, &last.DetachedNS, &last.Complete, &last.EndReason)
	}, `SELECT id, pid, command, host, begun_ns, coalesce(armed_ns, 0), coalesce(detached_ns, 0),
		ended_ns IS NOT NULL, coalesce(end_reason, '') FROM rtl_session ORDER BY id`)
}

// readCoverage takes the accounts that were settled at the end of each session,
// and counts rows for sessions that have none. A window that never closed tells
// no number of dispatches: what arrived is then all that is known of it.
func (s *Summary) readCoverage(db *sql.DB) error {
	c := &s.Coverage
	// total() and not sum(): hostile counts must not end in "integer overflow".
	err := db.QueryRow(`SELECT count(*) FILTER (WHERE windows > 0),
			CAST(total(CASE WHEN windows_open > 0 THEN max(dispatches, timed + untimed) ELSE dispatches END) AS INTEGER),
			CAST(total(timed) AS INTEGER),
			CAST(total(max(unexplained, 0)) AS INTEGER), CAST(total(max(-unexplained, 0)) AS INTEGER),
			CAST(total(after_detach) AS INTEGER), CAST(total(raw_before) AS INTEGER), CAST(total(windows_open) AS INTEGER)
		FROM rtl_coverage`).
		Scan(&c.QueuesRecorded, &c.Dispatches, &c.Timed, &c.Unexplained, &c.Surplus, &c.AfterDetach, &c.RawBefore, &c.WindowsOpen)
	if err != nil {
		return err
	}
	// Of a session without counters those that were recorded are all that is known.
	err = db.QueryRow(`SELECT CAST(total(max(coalesce(seen, 0), coalesce(recorded, 0))) AS INTEGER), CAST(total(strange) AS INTEGER)
		FROM rtl_session s LEFT JOIN (SELECT session_id, total(value) FILTER (WHERE name = ?) AS seen,
				total(value) FILTER (WHERE name = ?) AS strange FROM rtl_counter GROUP BY session_id) k ON k.session_id = s.id
			LEFT JOIN (SELECT q.session_id, count(*) FILTER (WHERE v.windows > 0) AS recorded
				FROM rtl_coverage v JOIN rtl_queue q ON q.id = v.queue_id GROUP BY q.session_id) v ON v.session_id = s.id`,
		tracedb.CounterQueuesSeen, tracedb.CounterQueuesForeign).Scan(&c.QueuesSeen, &c.QueuesForeign)
	if err != nil {
		return err
	}
	return s.readRawUnseen(db)
}

// readRawUnseen finds the claims that no account of a queue holds: of what the
// payload counted in a session, those that its queues do not explain.
func (s *Summary) readRawUnseen(db *sql.DB) error {
	return db.QueryRow(`SELECT CAST(total(max(0, counted - explained)) AS INTEGER) FROM (SELECT c.value AS counted,
			(SELECT total(v.raw_before) FROM rtl_coverage v JOIN rtl_queue q ON q.id = v.queue_id
				WHERE q.session_id = c.session_id) AS explained
		FROM rtl_counter c WHERE c.name = ?)`, tracedb.CounterRawClaims).Scan(&s.Coverage.RawUnseen)
}

// countCutOff adds the sessions whose recorder was killed: nobody settled their accounts.
func (s *Summary) countCutOff(a *analysis) {
	c := &s.Coverage
	for _, q := range a.queues {
		if q.stay.session.settled {
			continue
		}
		c.QueuesRecorded++
		c.QueuesSeen++
		c.WindowsOpen++
		c.Dispatches = sum(c.Dispatches, sum(q.came, q.untimed))
		c.Timed += q.came
	}
	c.QueuesSeen = max(c.QueuesSeen, c.QueuesRecorded)
}

func (s *Summary) readUntimed(db *sql.DB) error {
	s.Coverage.Untimed = []Untimed{}
	return each(db, func(r *sql.Rows) error {
		var u Untimed
		err := r.Scan(&u.Reason, &u.Text, &u.Packets)
		s.Coverage.Untimed = append(s.Coverage.Untimed, u)
		return err
	}, `SELECT r.name, r.text, CAST(total(u.packets) AS INTEGER) AS packets FROM rtl_untimed u JOIN rtl_reason r ON r.id = u.reason_id
		WHERE r.name <> 'after-detach' GROUP BY r.id ORDER BY packets DESC`)
}

func (s *Summary) readLosses(db *sql.DB) error {
	s.Losses = []Loss{}
	return each(db, func(r *sql.Rows) error {
		var l Loss
		err := r.Scan(&l.Cause, &l.Records)
		s.Losses = append(s.Losses, l)
		return err
	}, "SELECT cause, CAST(total(records) AS INTEGER) AS records FROM rtl_loss GROUP BY cause ORDER BY records DESC, cause")
}

func (s *Summary) readPauses(db *sql.DB) error {
	p := &s.Pauses
	err := db.QueryRow(`SELECT count(*), count(DISTINCT session_id << 32 | tid), coalesce(sum(duration_ns), 0),
		coalesce(max(duration_ns), 0) FROM rtl_pause`).Scan(&p.Stops, &p.Threads, &p.TotalNS, &p.WorstNS)
	if err != nil {
		return err
	}
	return s.readScheduler(db)
}

// readScheduler takes no part for the whole: every session with a pause must have the figure.
func (s *Summary) readScheduler(db *sql.DB) error {
	var seen Scheduler
	var sessions, without int64
	err := db.QueryRow(`SELECT count(*) FILTER (WHERE name = ?1), CAST(total(value) FILTER (WHERE name = ?1) AS INTEGER),
			CAST(total(value) FILTER (WHERE name = ?2) AS INTEGER), CAST(coalesce(max(value) FILTER (WHERE name = ?3), 0) AS INTEGER),
			(SELECT count(DISTINCT session_id) FROM rtl_pause
				WHERE session_id NOT IN (SELECT session_id FROM rtl_counter WHERE name = ?1))
		FROM rtl_counter`, tracedb.CounterSchedulerStops, tracedb.CounterSchedulerTotal, tracedb.CounterSchedulerWorst).
		Scan(&sessions, &seen.Stops, &seen.TotalNS, &seen.WorstNS, &without)
	if err == nil && sessions > 0 && without == 0 {
		s.Pauses.Scheduler = &seen
	}
	return err
}
