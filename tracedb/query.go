package tracedb

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/mattn/go-sqlite3"
)

// Limits of a user's query; SQLite sorts in temporary files.
const (
	longestQuery    = 1 << 16 // bytes
	mostQueryMemory = 1 << 28 // bytes that SQLite may use in the whole process
)

// latest is later than any valid time.
const latest = 1<<62 - 1

// LossSpan returns the time in which records of a session were lost. It replaces an
// unknown begin or end by the session's.
func LossSpan(fromNS, untilNS, beginNS, endNS int64) (int64, int64) {
	if fromNS <= 0 || fromNS > latest {
		fromNS = beginNS
	}
	if untilNS <= 0 || untilNS > latest {
		untilNS = endNS
	}
	return fromNS, max(fromNS, untilNS)
}

// HasQueuedBefore reports whether a trace records what was queued before a window; traces
// of earlier versions do not.
func HasQueuedBefore(db *sql.DB) (bool, error) { return HasColumn(db, "rtl_window", "queued_before") }

// HasColumn reports whether a table of a trace has a column; earlier formats have fewer.
func HasColumn(db *sql.DB, table, column string) (bool, error) {
	var columns int
	err := db.QueryRow("SELECT count(*) FROM pragma_table_info(?) WHERE name = ?", table, column).Scan(&columns)
	return columns == 1, err
}

// TargetColumns returns the names of the columns outcome and detail of rtl_target in a
// trace: format 1 had other names.
func TargetColumns(db *sql.DB) (outcome, detail string, err error) {
	if has, err := HasColumn(db, "rtl_target", "outcome"); err != nil || has {
		return "outcome", "detail", err
	}
	return "fate", "text", nil
}

// Ask runs a user's query on an open trace, on a connection that can only read this file.
// The caller must call release after it has closed the rows.
func Ask(ctx context.Context, db *sql.DB, query string) (rows *sql.Rows, release func(), err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	release = func() { _ = conn.Close() } // the connection only reads: nothing can be lost
	if err := conn.Raw(restrict); err != nil {
		release()
		return nil, nil, err
	}
	rows, err = conn.QueryContext(ctx, alone(query))
	if err != nil {
		release()
		return nil, nil, err
	}
	return rows, release, nil
}

// alone wraps a query so that it must be a single SELECT.
func alone(query string) string {
	return "SELECT * FROM (\n" + strings.TrimRight(query, "; \t\r\n") + "\n)"
}

// restrict makes a connection read-only for the rest of its life.
func restrict(driverConn any) error {
	c := driverConn.(*sqlite3.SQLiteConn)
	if _, err := c.Exec(fmt.Sprintf("PRAGMA query_only = ON; PRAGMA hard_heap_limit = %d", mostQueryMemory), nil); err != nil {
		return err
	}
	c.SetLimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, longestQuery)
	c.SetLimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
	c.SetLimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
	c.RegisterAuthorizer(func(action int, _, name, _ string) int {
		const recursive = 33 // SQLITE_RECURSIVE
		switch action {
		case sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, recursive:
			return sqlite3.SQLITE_OK
		case sqlite3.SQLITE_FUNCTION:
			if name != "load_extension" {
				return sqlite3.SQLITE_OK
			}
		}
		return sqlite3.SQLITE_DENY
	})
	return nil
}
