package export

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

func makeRPD(t *testing.T, path string) (*sql.DB, *Result) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "a b%20?.rpd")
	f, _ := FormatNamed("rpd")
	r, err := f.Write(t.Context(), path, output, 0)
	must(t, err)
	db, err := sql.Open("sqlite3", "file:"+filepath.Dir(output)+"/a%20b%2520%3f.rpd?mode=ro")
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db, r
}

func dump(t *testing.T, db *sql.DB, query string) (all []string) {
	t.Helper()
	rows, err := db.Query(query)
	must(t, err)
	defer rows.Close()
	names, err := rows.Columns()
	must(t, err)
	for rows.Next() {
		values := make([]any, len(names))
		for i := range values {
			values[i] = new(any)
		}
		must(t, rows.Scan(values...))
		text := ""
		for _, v := range values {
			text += fmt.Sprintf("%v|", *v.(*any))
		}
		all = append(all, text)
	}
	must(t, rows.Err())
	return all
}

// Every table holds what the view of that name shows in the trace, in harmless words.
func TestRPD(t *testing.T) {
	path := sample(t)
	got, r := makeRPD(t, path)
	want, err := tracedb.Open(path)
	must(t, err)
	defer want.Close()
	if r.Dispatches != 27 || r.LeftOut != 0 {
		t.Errorf("%+v", r)
	}
	for _, query := range []string{
		"SELECT * FROM rocpd_string ORDER BY id", "SELECT * FROM rocpd_op ORDER BY id", "SELECT * FROM rocpd_api ORDER BY id",
		"SELECT * FROM rocpd_api_ops ORDER BY id", "SELECT * FROM rocpd_kernelapi ORDER BY api_ptr_id", "SELECT * FROM rocpd_copyapi",
		"SELECT * FROM top ORDER BY Name", "SELECT * FROM busy", "SELECT * FROM rocpd_metadata WHERE tag NOT LIKE '%coverage' ORDER BY id",
	} {
		g, w := dump(t, got, query), dump(t, want, query)
		for i := range w {
			w[i] = sanitize.Text(w[i])
		}
		if fmt.Sprint(g) != fmt.Sprint(w) {
			t.Errorf("%s:\n%q, want\n%q", query, g, w)
		}
	}
	if n := dump(t, got, "SELECT type, count(*) FROM sqlite_master WHERE name LIKE 'rocpd%' GROUP BY type"); fmt.Sprint(n) != "[table|8|]" {
		t.Errorf("%v", n)
	}
	if c := dump(t, got, "SELECT value FROM rocpd_metadata WHERE tag = 'session_1_coverage'"); len(c) != 1 {
		t.Errorf("%v", c)
	}
}

// The impossible is left out, or refused; nothing of an export that fails stays.
func TestHostileTraces(t *testing.T) {
	for name, c := range map[string]struct {
		sql     string
		leftOut int64 // of 27
		refused error
	}{
		"least numbers":       {"UPDATE rtl_execution SET start_ns = -9223372036854775808, duration_ns = -9223372036854775808, queued_ns = -9223372036854775808 WHERE id = 1", 1, nil},
		"greatest numbers":    {"UPDATE rtl_execution SET start_ns = 9223372036854775807, duration_ns = 9223372036854775807, queued_ns = 9223372036854775807, packet_index = -1 WHERE id < 3", 2, nil},
		"an end past all":     {"UPDATE rtl_execution SET duration_ns = 9223372036854775807 WHERE id = 3", 1, nil},
		"a submit past all":   {"UPDATE rtl_execution SET queued_ns = -9223372036854775808 WHERE id = 3", 0, nil},
		"no context":          {"DELETE FROM rtl_context WHERE id = 1", 2, nil},
		"no queue":            {"DELETE FROM rtl_queue WHERE id = 2", 4, nil},
		"no GPU":              {"DELETE FROM rtl_agent WHERE id = 1", 9, nil},
		"no kernel":           {"DELETE FROM rtl_launch WHERE id = 1", 3, nil},
		"no name":             {"UPDATE rtl_launch SET name_id = 12345 WHERE id = 1", 3, nil},
		"no thread":           {"DELETE FROM rtl_thread", 0, nil},
		"odd numbers":         {"UPDATE rtl_thread SET tid = -9223372036854775808; UPDATE rtl_session SET pid = -1; UPDATE rtl_agent SET gpu_id = -9223372036854775808; UPDATE rtl_queue SET hsa_id = -1", 0, nil},
		"odd sessions":        {"UPDATE rtl_session SET begun_ns = -9223372036854775808, armed_ns = 9223372036854775807, detached_ns = 9223372036854775807, ended_ns = NULL, monotonic_offset_start_ns = 9223372036854775807", 0, nil},
		"odd accounts":        {"UPDATE rtl_coverage SET dispatches = -9223372036854775808, timed = 9223372036854775807; UPDATE rtl_loss SET records = -9223372036854775808, from_ns = -1; UPDATE rtl_window SET opened_ns = -9223372036854775808, closed_ns = 9223372036854775807; UPDATE rtl_pause SET duration_ns = -5; UPDATE rtl_untimed SET submit_ns = -1", 0, nil},
		"empty":               {"DELETE FROM rtl_execution", 0, nil},
		"nothing at all":      {"DELETE FROM rtl_execution; DELETE FROM rtl_session; DELETE FROM rtl_queue", 0, nil},
		"names with controls": {"UPDATE rocpd_string SET string = char(27) || '[2J' || char(0) || id || CAST(x'ff22' AS TEXT) WHERE id > 5", 0, nil},
		"a name that is none": {"PRAGMA writable_schema = ON; UPDATE rtl_launch SET name_id = 'x'", 27, nil},
		"text for a time":     {"UPDATE rtl_execution SET start_ns = char(27) || 'x' WHERE id = 5", 1, errAny},
		"a view for a table":  {"DROP TABLE rtl_pause; CREATE VIEW rtl_pause AS SELECT 1", 0, tracedb.ErrNotTrace},
	} {
		t.Run(name, func(t *testing.T) {
			path := sample(t)
			change(t, path, c.sql)
			for _, f := range Formats {
				output := filepath.Join(t.TempDir(), "out")
				r, err := f.Write(t.Context(), path, output, 0)
				if err != nil {
					if f.isIdle() && c.leftOut == 27 {
						continue // the report refuses it
					}
					if _, e := os.Lstat(output); c.refused == nil || c.refused != errAny && !errors.Is(err, c.refused) || !errors.Is(e, os.ErrNotExist) {
						t.Errorf("%s: %v, left: %v", f.Name, err, e == nil)
					}
					continue
				}
				unnamed := f.isIdle() && name == "no name" // a report does not leave it out
				if len(f.kinds) == 0 && r.LeftOut != c.leftOut && !unnamed || c.refused != nil && c.refused != errAny {
					t.Errorf("%s: %d left out, want %d", f.Name, r.LeftOut, c.leftOut)
				}
				if f.Name == "csv" || f.Name == "rocprofv3" {
					checkHarmless(t, readFile(t, output))
				}
			}
		})
	}
}

// errAny: refused by those who compute with it.
var errAny = errors.New("any")
