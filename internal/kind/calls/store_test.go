package calls

import (
	"database/sql"
	"slices"
	"strings"
	"testing"
)

// change runs SQL in a file as its owner can.
func change(t testing.TB, path, statements string) {
	t.Helper()
	raw, err := sql.Open("sqlite3", path)
	must(t, err)
	_, err = raw.Exec(statements)
	must(t, err, raw.Close())
}
func expect(t testing.TB, db *sql.DB, query string, want ...string) {
	t.Helper()
	found, err := db.Query(query)
	must(t, err)
	defer found.Close()
	columns, err := found.Columns()
	must(t, err)
	var got []string
	for found.Next() {
		values := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			values[i].String, into[i] = "", &values[i]
		}
		must(t, found.Scan(into...))
		row := make([]string, len(values))
		for i, v := range values {
			if row[i] = "NULL"; v.Valid {
				row[i] = v.String
			}
		}
		got = append(got, strings.Join(row, "|"))
	}
	must(t, found.Err())
	if !slices.Equal(got, want) {
		t.Errorf("%s\n got %q\nwant %q", query, got, want)
	}
}
