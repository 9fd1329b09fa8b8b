package tracedb

import (
	"fmt"
	"slices"
	"strings"
)

// ShownCalls are the rows of a kind's table as rows of rocpd_api.
type ShownCalls struct {
	Table string
	SQL   string   // a SELECT of rocpd_api's columns, with ids below 0 that no other table's rows have
	Names []string // texts that it refers to in rocpd_string
}

// shownCalls are those of all kinds, in the order of AddCalls.
var shownCalls []ShownCalls

// AddCalls makes the view rocpd_api of a trace have a kind's rows, if the trace has any. Init functions call it.
func AddCalls(c ShownCalls) { shownCalls = append(shownCalls, c) }

const (
	callsView = "rocpd_api"
	andCalls  = "\nUNION ALL\n"
)

// showCalls adds the rows of a kind's table to the view rocpd_api, when the first of them is written. A trace
// without such rows keeps the view of dispatches alone: SQLite reads a union of several SELECTs, which it
// materialises for a join, more slowly (docs/measured.md).
func (db *DB) showCalls(table string) error {
	i := slices.IndexFunc(shownCalls, func(c ShownCalls) bool { return c.Table == table })
	if i < 0 {
		return nil
	}
	var now string
	if err := db.conn.QueryRowContext(background, "SELECT sql FROM main.sqlite_master WHERE type = 'view' AND name = ?", callsView).Scan(&now); err != nil {
		return fmt.Errorf("view %s: %w", callsView, err)
	}
	if strings.Contains(now, andCalls+shownCalls[i].SQL) {
		return nil // by an earlier session of the file
	}
	for _, name := range shownCalls[i].Names {
		if _, err := db.intern(name); err != nil {
			return err
		}
	}
	return db.exec("DROP VIEW " + callsView + ";\n" + now + andCalls + shownCalls[i].SQL)
}

// withoutCalls returns a view's SQL as Create makes it.
func withoutCalls(view string) string {
	for _, c := range shownCalls {
		view = strings.Replace(view, andCalls+c.SQL, "", 1)
	}
	return view
}
