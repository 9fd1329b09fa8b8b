package harness

import (
	"database/sql"
	"testing"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Period is a row of rtl_period, with the times of its session.
type Period struct {
	PID, Session, Number, Count int64 // Session 0: it was not recorded
	Clock, Reason               string
	PlannedNS, PlannedEndNS     int64 // 0: NULL
	ArmedNS, DetachedNS         int64
}

// ReadPeriods reads the windows of a schedule, in the order in which they were written.
func ReadPeriods(t testing.TB, path string) (all []Period) {
	t.Helper()
	db, err := tracedb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT p.pid, coalesce(p.session_id, 0), p.number, p.periods, p.clock, coalesce(p.reason, ''), coalesce(p.planned_start_ns, 0),
		coalesce(p.planned_end_ns, 0), coalesce(s.armed_ns, 0), coalesce(s.detached_ns, 0)
		FROM rtl_period p LEFT JOIN rtl_session s ON s.id = p.session_id ORDER BY p.id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var p Period
		if err := scanPeriod(rows, &p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func scanPeriod(rows *sql.Rows, p *Period) error {
	return rows.Scan(&p.PID, &p.Session, &p.Number, &p.Count, &p.Clock, &p.Reason, &p.PlannedNS, &p.PlannedEndNS, &p.ArmedNS, &p.DetachedNS)
}

// CheckPeriods checks that each window of a schedule is in the trace once, recorded or not; that the
// recorded ones begin and end no earlier than planned; and that there is one session for each. It
// returns how many were recorded. A window in which the runtime was shut down has several sessions.
func CheckPeriods(t testing.TB, periods []Period) (recorded int) {
	t.Helper()
	next := int64(0)
	for _, p := range periods {
		again := p.Session != 0 && p.Number == next-1
		if p.Number != next && !again || p.Count < 1 || (p.Session == 0) == (p.Reason == "") {
			t.Errorf("%+v, expected number %d", p, next)
		}
		next = max(next, p.Number+p.Count)
		if p.Session == 0 {
			continue
		}
		recorded++
		if p.PlannedNS != 0 && (p.ArmedNS < p.PlannedNS || p.DetachedNS != 0 && p.DetachedNS < p.ArmedNS) {
			t.Errorf("%+v: armed %d ns after its time", p, p.ArmedNS-p.PlannedNS)
		}
	}
	return recorded
}
