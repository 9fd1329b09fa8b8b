package null_test

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	_ "github.com/mattn/go-sqlite3"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

const calls = 100

// TestNull: each call of a program is a row of the trace, counted in the report, and an
// event of the exports; one before the recording or after it is none.
func TestNull(t *testing.T) {
	p := harness.Start(t, harness.Stress(2, 2, 64, "--pace", "100"))
	ask := func(times int) {
		for range times {
			if _, err := p.Get("/time"); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask(3)
	trace := filepath.Join(t.TempDir(), "t.db")
	r := tool(t, "-p", strconv.Itoa(p.PID), "-o", trace, "--payload", harness.TestPayload(t), "--null-trace")
	r.Says(t, "✓ attached")
	ask(calls)
	r.Interrupt(t)
	r.MustExit(t, 0)
	ask(3)
	p.Quit(t)

	if said := r.Stdout.String(); !strings.Contains(said, "Null calls") || !strings.Contains(said, " "+strconv.Itoa(calls)+"\n") {
		t.Errorf("the summary says nothing of %d calls:\n%s", calls, said)
	}
	expectRows(t, trace)
	expectEvents(t, trace)
}

// tool starts the tool that has the tests' kinds.
func tool(t *testing.T, args ...string) *harness.Command {
	t.Helper()
	c := harness.NewProgram(t, "rtl-attach-fault", args...)
	c.Start(t)
	return c
}

func expectRows(t *testing.T, trace string) {
	t.Helper()
	db, err := sql.Open("sqlite3", trace)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var rows, named, begun, timed, unexplained int64
	err = db.QueryRow(`SELECT (SELECT count(*) FROM rtl_null_call c JOIN rtl_session s ON s.id = c.session_id
			WHERE c.time_ns BETWEEN s.armed_ns AND s.detached_ns), (SELECT count(thread_id) FROM rtl_null_call),
		begun, timed, unexplained FROM rtl_kind_coverage WHERE kind = 'null'`).Scan(&rows, &named, &begun, &timed, &unexplained)
	if err != nil {
		t.Fatal(err)
	}
	if rows != calls || named != calls || begun != calls || timed != calls || unexplained != 0 {
		t.Errorf("%d rows, %d with a thread, account %d begun, %d timed, %d unexplained; %d calls were made", rows, named, begun, timed, unexplained, calls)
	}
}

func expectEvents(t *testing.T, trace string) {
	t.Helper()
	output := filepath.Join(t.TempDir(), "t.json")
	tool(t, "export", trace, "-f", "chrome", "-o", output).MustExit(t, 0)
	data, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	var exported struct {
		TraceEvents []struct{ Name string }
	}
	if err := json.Unmarshal(data, &exported); err != nil {
		t.Fatal(err)
	}
	events := 0
	for _, e := range exported.TraceEvents {
		if e.Name == "hsa_system_get_info" {
			events++
		}
	}
	if events != calls {
		t.Errorf("%d events, %d calls", events, calls)
	}
}
