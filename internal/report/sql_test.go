package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Only reading is possible, one statement at a time, and nothing but this file.
func TestQueryOnlyReads(t *testing.T) {
	path := causesTrace(t)
	before, err := os.ReadFile(path)
	must(t, err)
	other := filepath.Join(t.TempDir(), "other.db")
	for query, works := range map[string]bool{
		"SELECT Name, Calls FROM top": true,
		"SELECT 1;":                   true,
		"WITH n AS (SELECT 1) SELECT * FROM n -- the end": true,
		"VALUES(1, 2)":                                true,
		"SELECT sql FROM sqlite_master":               true,
		"DELETE FROM rtl_execution":                   false,
		"SELECT 1) ; DELETE FROM rtl_execution; --":   false,
		"SELECT 1; SELECT 2":                          false,
		"ATTACH '" + other + "' AS o":                 false,
		"VACUUM INTO '" + other + "'":                 false,
		"PRAGMA user_version = 7":                     false,
		"SELECT * FROM pragma_user_version":           false,
		"CREATE TEMP TABLE t(x)":                      false,
		"SELECT load_extension('x')":                  false,
		"SELECT writefile('" + other + "', 'x')":      false,
		"SELECT length(zeroblob(100000000))":          false,
		"SELECT nothing FROM nowhere":                 false,
		"SELECT '" + strings.Repeat("x", 1<<16) + "'": false,
		"SELECT ?": false,
		"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 3) SELECT x FROM n": true,
	} {
		for form := range JSON + 1 {
			if err := Query(t.Context(), io.Discard, path, query, form); works != (err == nil) || err != nil && !errors.Is(err, ErrQuery) {
				t.Errorf("%.60s: %v", query, err)
			}
		}
	}
	after, err := os.ReadFile(path)
	must(t, err)
	if _, err := os.Stat(other); !errors.Is(err, os.ErrNotExist) || !bytes.Equal(before, after) {
		t.Errorf("it wrote: %v", err)
	}
}

func TestQueryForms(t *testing.T) {
	path := causesTrace(t)
	const query = `SELECT 1 AS "a", 'x' || char(27) AS "a", NULL, 1.5, x'00ff', '=1', -3, 9e999 UNION ALL SELECT 2, '"', 3, 4, 5, 6, 7, 8 ORDER BY 1 DESC`
	for form, want := range map[Form]string{
		Tabs: "2\t\"\t3\t4\t5\t6\t7\t8\n1\tx\\x1b\t\t1.5\tx'00ff'\t=1\t-3\t+Inf\n",
		CSV:  "2,\"\"\"\",3,4,5,6,7,8\n1,x\\x1b,,1.5,x'00ff','=1,-3,+Inf\n",
		JSON: "[2,\"\\\"\",3,4,5,6,7,8],\n[1,\"x\\u001b\",null,1.5,\"x'00ff'\",\"=1\",-3,\"+Inf\"]\n]}\n",
	} {
		var b bytes.Buffer
		must(t, Query(t.Context(), &b, path, query, form), Query(t.Context(), &plainWriter{t}, path, query, form))
		if _, rows, ok := strings.Cut(b.String(), "\n"); !ok || rows != want {
			t.Errorf("%d: %q, want %q", form, rows, want)
		}
		var object struct {
			Columns []string
			Rows    [][]any
		}
		if form == JSON {
			if err := json.Unmarshal(b.Bytes(), &object); err != nil || len(object.Columns) != 8 || len(object.Rows) != 2 {
				t.Errorf("%s: %+v, %v", b.Bytes(), object, err)
			}
		}
	}
}

// A plainWriter takes tabs, too.
type plainWriter struct{ t *testing.T }

func (w *plainWriter) Write(p []byte) (int, error) {
	_, err := (&harmlessWriter{w.t}).Write(bytes.ReplaceAll(p, []byte("\t"), nil))
	return len(p), err
}
