package export

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/sanitize"
)

// evil is what a terminal obeys, and in SQL two texts with it that look the same.
const (
	evil      = "\x1b[7m"
	evilValue = "char(27) || '[7m' || char(0, 155, 8238, 10) || CAST(x'fe' AS TEXT)"
	evilTwin  = "char(27) || '[7m' || char(0, 155, 8238, 10) || CAST(x'ff' AS TEXT)"
)

// TestRPDHostileValues: whichever value of a trace is words for a terminal, SQLite's
// shell does not say them: they are escaped, left out or refused. (The other formats
// are written from numbers and names, each in one place.)
func TestRPDHostileValues(t *testing.T) {
	honest, path := readFile(t, sample(t)), filepath.Join(t.TempDir(), "t.db")
	must(t, os.WriteFile(path, honest, 0o600))
	f, _ := FormatNamed("rpd")
	for _, column := range columns(t, path) {
		table, name, _ := strings.Cut(column, ".")
		must(t, os.WriteFile(path, honest, 0o600))
		change(t, path, fmt.Sprintf("UPDATE OR IGNORE %s SET %s = %s", table, name, evilValue))
		output := filepath.Join(t.TempDir(), "out")
		if _, err := f.Write(t.Context(), path, output, 0); err == nil && bytes.Contains(readFile(t, output), []byte(evil)) {
			t.Errorf("it has what stood in %s", column)
		}
	}
}

// TestRPDTwins: names that are the same once they are harmless, and one that is too
// long, cost no dispatch.
func TestRPDTwins(t *testing.T) {
	path := sample(t)
	change(t, path, fmt.Sprintf(`UPDATE rocpd_string SET string = CASE id WHEN (SELECT min(name_id) FROM rtl_launch) THEN %s ELSE %s END
		WHERE id IN (SELECT min(name_id) FROM rtl_launch UNION SELECT max(name_id) FROM rtl_launch);
		INSERT INTO rocpd_string(string) VALUES(replace(hex(zeroblob(1000000)), '00', char(27)))`, evilValue, evilTwin))
	db, r := makeRPD(t, path)
	if r.Dispatches != 27 || r.LeftOut != 0 {
		t.Errorf("%+v", r)
	}
	names := dump(t, db, `SELECT Name FROM top WHERE Name LIKE '%[7m%' ORDER BY 1`)
	if len(names) != 2 || !strings.HasPrefix(names[1], strings.TrimSuffix(names[0], "|")+" #") || sanitize.Text(names[0]) != names[0] {
		t.Errorf("%q", names)
	}
	if long := dump(t, db, "SELECT max(length(string)) < 4 * 32768 + 20 FROM rocpd_string"); long[0] != "1|" {
		t.Errorf("a name of any length is kept")
	}
}

// columns are those of a trace's tables, but for ids, which nothing but a number can be.
func columns(t *testing.T, path string) (all []string) {
	t.Helper()
	db, err := sql.Open("sqlite3", path)
	must(t, err)
	defer db.Close()
	rows, err := db.Query(`SELECT t.name || '.' || c.name FROM pragma_table_list AS t, pragma_table_info(t.name) AS c
		WHERE t.type = 'table' AND (t.name LIKE 'rtl#_%' ESCAPE '#' OR t.name LIKE 'rocpd#_%' ESCAPE '#') AND c.pk = 0`)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var one string
		must(t, rows.Scan(&one))
		all = append(all, one)
	}
	must(t, rows.Err())
	return all
}
