package tracedb

import (
	"database/sql"
	_ "embed"
)

//go:embed rates.sql
var rateSchema string

// Phases of a recording.
const (
	RateBefore = "before"
	RateDuring = "during"
	RateAfter  = "after"
)

// Rate is how many packets the GPUs took from the queues of a process in one phase of its recording.
type Rate struct {
	Phase           string
	FromNS, UntilNS uint64
	Packets         uint64
	Uncertainty     float64 // of packets per second
	Reason          string  // why there is no rate; "": there is one
}

// Rates writes the rates of a process.
func (db *DB) Rates(pid uint32, startTicks, begunNS uint64, rates []Rate) error {
	return db.write(func() error {
		for _, r := range rates {
			var reason any
			if r.Reason != "" {
				reason = r.Reason
			}
			err := db.exec("INSERT INTO rtl_rate VALUES(NULL,?,?,?,?,?,?,?,?,?)", pid, int64(startTicks), int64(begunNS), r.Phase,
				orNULL(r.FromNS), orNULL(r.UntilNS), int64(r.Packets), r.Uncertainty, reason)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// HasRates reports whether a trace has rates; those of earlier versions have none.
func HasRates(db *sql.DB) (bool, error) { return HasTables(db, "rtl_rate") }
