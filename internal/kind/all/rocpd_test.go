package all

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/internal/kind/markers"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// asOthers runs a query on a trace as another program does: with the file's own views.
func asOthers(t *testing.T, path, query string) (rows []string) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro")
	must(t, err)
	defer db.Close()
	found, err := db.Query(query)
	must(t, err)
	defer found.Close()
	for found.Next() {
		var row string
		must(t, found.Scan(&row))
		rows = append(rows, row)
	}
	must(t, found.Err())
	return rows
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// record adds a session with a kernel, and with calls and markers at a time if it is not 0.
func record(t *testing.T, path string, pid uint32, atNS uint64) {
	t.Helper()
	place, err := tracedb.CheckExtend(path, 0)
	must(t, err)
	db, err := tracedb.Make(place)
	must(t, err)
	s, err := db.Begin(tracedb.SessionInfo{PID: pid, Command: "serve"})
	must(t, err)
	must(t,
		s.Agent(tracedb.Agent{ID: 1}), s.Queue(tracedb.Queue{ID: 1, Agent: 1}), s.Launch(tracedb.Launch{ID: 1, Agent: 1, Symbol: "k"}),
		s.Dispatches([]tracedb.Dispatch{{Queue: 1, Launch: 1, TID: 7, SubmitNS: 20, StartNS: 30, EndNS: 40}}))
	if atNS > 0 {
		launch, _ := function.Named("hipModuleLaunchKernel")
		must(t,
			s.Kind(1, func(w tracedb.KindWriter) error {
				return calls.Store(w, ring.KindHIPRuntimeAPI, []calls.Call{{StartNS: atNS, EndNS: atNS + 5, TID: 7, Function: uint16(launch)}})
			}),
			s.Kind(2, func(w tracedb.KindWriter) error {
				return markers.Store(w, []markers.Marker{
					{Form: markers.Range, TID: 7, EndTID: 7, Text: "step", HasText: true, StartNS: atNS - 1, EndNS: atNS + 9},
					{Form: markers.Range, TID: 7, Text: "open", HasText: true, StartNS: atNS + 7, Missing: markers.MissingEnd},
				})
			}))
	}
	must(t, s.End(tracedb.End{Reason: "detached"}), db.Close())
}

// Other programs find calls and markers in the view rocpd_api, of each session of a trace. A trace without has the
// rows of its kernels alone.
func TestCallsForOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.db")
	const rows = `SELECT a.pid || ' ' || a.tid || ' ' || n.string || ' ' || g.string || ' ' || a.start || ' ' || a.end FROM rocpd_api a
		JOIN rocpd_string n ON n.id = a.apiName_id JOIN rocpd_string g ON g.id = a.args_id ORDER BY a.id > 0, a.pid, a.start`
	const view = "SELECT sql FROM sqlite_master WHERE name = 'rocpd_api'"
	record(t, path, 41, 0)
	if got, now := asOthers(t, path, rows), asOthers(t, path, view); !slices.Equal(got, []string{"41 7 KernelSubmit  20 20"}) || strings.Contains(now[0], "UNION") {
		t.Errorf("%q\n%s", got, now)
	}
	var want []string
	for pid := range uint32(3) {
		at := 10 + 100*pid
		record(t, path, 42+pid, uint64(at))
		want = append(want, fmt.Sprintf("%d 7 UserMarker step %d %d", 42+pid, at-1, at+9), fmt.Sprintf("%d 7 hipModuleLaunchKernel  %d %d", 42+pid, at, at+5))
	}
	want = append(want, "41 7 KernelSubmit  20 20", "42 7 KernelSubmit  20 20", "43 7 KernelSubmit  20 20", "44 7 KernelSubmit  20 20")
	if got := asOthers(t, path, rows); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if n := strings.Count(asOthers(t, path, view)[0], "UNION ALL"); n != 2 {
		t.Errorf("%d unions", n)
	}
	for query, want := range map[string]string{
		"SELECT count(*) FROM rocpd_api_ops l JOIN rocpd_api a ON a.id = l.api_id JOIN rocpd_op o ON o.id = l.op_id": "4",
		"SELECT count(DISTINCT id) FROM rocpd_api":                                            "10",
		"SELECT max(end) FROM (SELECT end FROM rocpd_api UNION ALL SELECT end FROM rocpd_op)": "219",
	} {
		if got := asOthers(t, path, query); got[0] != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	db, err := tracedb.Open(path) // the tool's own readers use their own views
	must(t, err)
	defer db.Close()
	var n int
	must(t, db.QueryRow("SELECT count(*) FROM rocpd_api").Scan(&n))
	if n != 4 {
		t.Errorf("%d rows", n)
	}
}

// A trace whose view is another is another version's.
func TestExtendWithOtherView(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.db")
	record(t, path, 42, 10)
	db, err := sql.Open("sqlite3", path)
	must(t, err)
	_, err = db.Exec("DROP VIEW rocpd_api; CREATE VIEW rocpd_api AS SELECT 1 UNION ALL SELECT 2")
	must(t, err, db.Close())
	place, err := tracedb.CheckExtend(path, 0)
	must(t, err)
	if _, err := tracedb.Make(place); !errors.Is(err, tracedb.ErrOtherLayout) {
		t.Errorf("%v", err)
	}
}
