package tracedb

import _ "embed"

//go:embed periods.sql
var periodSchema string

// Period is a window of a schedule.
type Period struct {
	Number    uint64 // in the schedule, from 0
	Count     uint64 // windows from Number on; 1 if it was recorded
	Clock     string
	PlannedNS uint64 // CLOCK_BOOTTIME; 0: not known before
	EndNS     uint64 // planned; 0: not known before, or none
	Reason    string // why it was not recorded
}

// Period writes the window of the schedule that the session has recorded.
func (s *Session) Period(pid uint32, startTicks uint64, p Period) error {
	return s.add(func() error { return s.db.addPeriod(pid, startTicks, s.id, p) })
}

// MissedPeriods writes windows of a schedule that were not recorded.
func (db *DB) MissedPeriods(pid uint32, startTicks uint64, p Period) error {
	return db.write(func() error { return db.addPeriod(pid, startTicks, nil, p) })
}

func (db *DB) addPeriod(pid uint32, startTicks uint64, session any, p Period) error {
	var reason any
	if p.Reason != "" {
		reason = p.Reason
	}
	return db.exec("INSERT INTO rtl_period VALUES(NULL,?,?,?,?,?,?,?,?,?)",
		pid, int64(startTicks), session, int64(p.Number), int64(p.Count), p.Clock, orNULL(p.PlannedNS), orNULL(p.EndNS), reason)
}
