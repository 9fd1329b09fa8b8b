package tracedb

import (
	"database/sql"
	_ "embed"
	"errors"
)

//go:embed trigger.sql
var triggerSchema string

// Trigger is what has made a flight recorder write a session.
type Trigger struct {
	Number     uint64 // of the recording, from 1
	Expression string // as the user wrote it, or what has asked for the trace
	Value      string // that fired it; may be empty
	FiredNS    uint64
	FromNS     uint64 // the records are complete from here on
	LimitedBy  string // why not from earlier: LimitTime, LimitSize, LimitStart
	Older      uint64 // records that were older than the kept ones
	Ignored    uint64 // further times that triggers fired since the trigger before this one
}

// What limits the begin of a flight recorder's trace.
const (
	LimitTime  = "time"
	LimitSize  = "size"
	LimitStart = "start"
)

// Trigger writes what has made the recorder write the session.
func (s *Session) Trigger(t Trigger) error {
	return s.add(func() error {
		return s.db.exec("INSERT INTO rtl_trigger VALUES(?,?,?,?,?,?,?,?,?)", s.id, int64(t.Number), t.Expression, t.Value,
			int64(t.FiredNS), int64(t.FromNS), t.LimitedBy, int64(t.Older), int64(t.Ignored))
	})
}

// TriggerOf returns the trigger of a session; nil: an ordinary recording.
func TriggerOf(db *sql.DB, session int64) (*Trigger, error) {
	if has, err := HasTables(db, "rtl_trigger"); err != nil || !has {
		return nil, err
	}
	var t Trigger
	err := db.QueryRow(`SELECT number, substr(expression, 1, 1024), substr(value, 1, 1024), fired_ns, from_ns, substr(limited_by, 1, 16), older, ignored
		FROM rtl_trigger WHERE session_id = ?`, session).
		Scan(&t.Number, &t.Expression, &t.Value, &t.FiredNS, &t.FromNS, &t.LimitedBy, &t.Older, &t.Ignored)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &t, err
}
