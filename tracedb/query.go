package tracedb

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/mattn/go-sqlite3"
)

// Bounds on what somebody's own query may take; SQLite sorts in temporary files.
const (
	longestQuery    = 1 << 16 // bytes
	mostQueryMemory = 1 << 28 // bytes, of SQLite's in the whole process
)

// latest is beyond every clock.
const latest = 1<<62 - 1

// LossSpan is when records of a session were lost: what is not known of that is the
// session's own begin or end.
func LossSpan(fromNS, untilNS, beginNS, endNS int64) (int64, int64) {
	if fromNS <= 0 || fromNS > latest {
		fromNS = beginNS
	}
	if untilNS <= 0 || untilNS > latest {
		untilNS = endNS
	}
	return fromNS, max(fromNS, untilNS)
}

// HasQueuedBefore reports whether a trace says what was queued before a window: those of
// earlier versions do not.
func HasQueuedBefore(db *sql.DB) (bool, error) { return HasColumn(db, "rtl_window", "queued_before") }

// HasColumn reports whether a table of a trace has a column: earlier formats have fewer.
func HasColumn(db *sql.DB, table, column string) (bool, error) {
	var columns int
	err := db.QueryRow("SELECT count(*) FROM pragma_table_info(?) WHERE name = ?", table, column).Scan(&columns)
	return columns == 1, err
}

// TargetColumns returns what a trace calls the columns outcome and detail of rtl_target:
// format 1 had other names for them.
func TargetColumns(db *sql.DB) (outcome, detail string, err error) {
	if has, err := HasColumn(db, "rtl_target", "outcome"); err != nil || has {
		return "outcome", "detail", err
	}
	return "fate", "text", nil
}

// Ask runs one query of the user's on an open trace: the connection that it gets
// can only read this file. The rows end with it; release must be called after them.
func Ask(ctx context.Context, db *sql.DB, query string) (rows *sql.Rows, release func(), err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	release = func() { _ = conn.Close() } // it was only read
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

// alone makes of a query one that cannot be several statements, nor another kind of one.
func alone(query string) string {
	return "SELECT * FROM (\n" + strings.TrimRight(query, "; \t\r\n") + "\n)"
}

// restrict lets a connection do nothing but read, until it ends.
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
