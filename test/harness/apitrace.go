package harness

import (
	"bufio"
	"cmp"
	"database/sql"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// APIRecord is a row of rtl_call.
type APIRecord struct {
	Kind, Function string
	TID            int64 // 0: not known
	StartNS, EndNS int64
	Result         uint64
	Flags          int64 // 1: the function's out-argument has what it has written
	Words          []uint64
}

// KindAccount is a row of rtl_kind_coverage.
type KindAccount struct{ Begun, Timed, Untimed, Unexplained int64 }

// APITrace is what a trace of one session has of API calls. (Another session, without calls, may
// follow if the application ends.)
type APITrace struct {
	Session   Session
	Calls     []APIRecord            // in the order of starts
	Accounts  map[string]KindAccount // by kind, also of those without a call
	Signals   bool                   // it has functions that are recorded on request, and so all of those
	UnknownNS int64                  // from here on an unknown number of records is missing, as the trace says; 0: no such time
	Only      func(name string) bool // --operations: the functions that it must have; nil: by functions.def
}

// apiKinds are the kinds of record of API calls.
var apiKinds = []string{"hip-runtime-api", "hip-compiler-api", "hsa-core-api", "hsa-amd-ext-api", "rccl-api"}

// ReadAPICalls reads a trace's API calls.
func ReadAPICalls(t testing.TB, path string) *APITrace {
	t.Helper()
	db := sound(t, path)
	defer db.Close()
	tr, all := &APITrace{Accounts: map[string]KindAccount{}}, &Trace{}
	if err := errors.Join(all.readSessions(db), tr.read(db)); err != nil || len(all.Sessions) == 0 {
		t.Fatalf("%s: %d sessions, %v", path, len(all.Sessions), err)
	}
	tr.Session = all.Sessions[0]
	if tr.UnknownNS != 0 {
		tr.UnknownNS = max(tr.UnknownNS, tr.Session.ArmedNS)
	}
	functions, err := apiFunctions()
	if err != nil {
		t.Fatal(err)
	}
	tr.Signals = slices.ContainsFunc(tr.Calls, func(c APIRecord) bool { return functions[c.Function].when == "ON_REQUEST" })
	return tr
}

func (tr *APITrace) read(db *sql.DB) error {
	err := each(db, "SELECT kind, begun, timed, untimed, unexplained FROM rtl_kind_coverage", func(r *sql.Rows) error {
		var (
			kind string
			a    KindAccount
		)
		err := r.Scan(&kind, &a.Begun, &a.Timed, &a.Untimed, &a.Unexplained)
		if slices.Contains(apiKinds, kind) {
			tr.Accounts[kind] = a
		}
		return err
	})
	err = errors.Join(err, each(db, "SELECT max(1, min(coalesce(from_ns, 0))) FROM rtl_loss WHERE records = 0 HAVING count(*) > 0", func(r *sql.Rows) error {
		return r.Scan(&tr.UnknownNS)
	}))
	return errors.Join(err, each(db, `SELECT a.string, n.string, coalesce(t.tid, 0), c.start_ns, c.start_ns + c.duration_ns,
			coalesce(c.result, 0), c.flags, c.arguments
		FROM rtl_call c JOIN rtl_function f ON f.id = c.function_id JOIN rocpd_string a ON a.id = f.api_id
		JOIN rocpd_string n ON n.id = f.name_id LEFT JOIN rtl_thread t ON t.id = c.thread_id ORDER BY c.start_ns, c.id`, func(r *sql.Rows) error {
		var (
			c         APIRecord
			result    int64
			arguments []byte
		)
		err := r.Scan(&c.Kind, &c.Function, &c.TID, &c.StartNS, &c.EndNS, &result, &c.Flags, &arguments)
		for ; len(arguments) >= 8; arguments = arguments[8:] {
			c.Words = append(c.Words, binary.BigEndian.Uint64(arguments))
		}
		c.Result = uint64(result)
		tr.Calls = append(tr.Calls, c)
		return err
	}))
}

// apiFunction is a row of payload/src/kinds/calls/functions.def.
type apiFunction struct {
	kind          string
	out, outBytes int // the argument that the record has the content of; -1: none
	when          string
}

var apiRow = regexp.MustCompile(`^FUNCTION\((\w+), (\w+), \d+, (\d+), (\d+), (\w+)\)`)

// apiFunctions reads the functions that the payload can record.
func apiFunctions() (map[string]apiFunction, error) {
	_, here, _, _ := runtime.Caller(0)
	f, err := os.Open(filepath.Join(filepath.Dir(here), "../../payload/src/kinds/calls/functions.def"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := map[string]apiFunction{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if m := apiRow.FindStringSubmatch(lines.Text()); m != nil {
			out, _ := strconv.Atoi(m[3])
			bytes, _ := strconv.Atoi(m[4])
			all[m[2]] = apiFunction{strings.ReplaceAll(strings.ToLower(m[1]), "_", "-"), out - 1, bytes, m[5]}
		}
	}
	return all, cmp.Or(lines.Err(), missingRows(all))
}

func missingRows(all map[string]apiFunction) error {
	if len(all) == 0 {
		return errors.New("functions.def has no functions")
	}
	return nil
}
