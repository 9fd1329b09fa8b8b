package tracedb

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// reopen writes a trace of one session and opens it to extend it.
func reopen(t *testing.T) *DB {
	t.Helper()
	_, path := finished(t)
	db, err := extendAt(path)
	must(t, err)
	return db
}

func extendAt(path string) (*DB, error) {
	place, err := CheckExtend(path, 1)
	if err != nil {
		return nil, err
	}
	return Make(place)
}

// change runs SQL in a trace.
func change(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite3", path)
	must(t, err)
	_, err = db.Exec(query)
	must(t, err, db.Close())
}

func bytesOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

func TestExtend(t *testing.T) {
	db := reopen(t)
	same, other := begin(t, db, 42), begin(t, db, 43)
	record(t, same, 0x300)
	record(t, other, 0x400)
	must(t, db.Close())
	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT s.id, s.pid, a.gpu_id FROM rtl_agent a JOIN rtl_session s ON s.id = a.session_id",
		"1|42|0", "2|42|0", "3|43|1")
	expect(t, read, "SELECT pid, count(*) FROM rocpd_api GROUP BY pid", "42|6", "43|3")
	expect(t, read, "SELECT count(*), count(DISTINCT launch_id) FROM rtl_dispatch", "9|6")
	expect(t, read, "SELECT Name, Calls FROM top ORDER BY Name", "copy_kernel|3", "gemm(float*)|6")
	expect(t, read, "SELECT value FROM rocpd_metadata WHERE tag IN ('pid', 'schema_version')", "2", "42")
	expect(t, read, "SELECT count(*) FROM rtl_reason", rows(t, read, "SELECT count(DISTINCT name) FROM rtl_reason")...)
	expect(t, read, "PRAGMA integrity_check", "ok")
	entries, err := os.ReadDir(filepath.Dir(db.place.Path))
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("beside the trace: %v", entries)
	}
}

// If there is no trace, Extend creates one.
func TestExtendMakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.db")
	db, err := extendAt(path)
	must(t, err)
	record(t, begin(t, db, 42), 0x300)
	must(t, db.Close())
	if db, err = extendAt(path); err != nil || !db.place.Extends {
		t.Fatalf("%v, %+v", err, db.place)
	}
	must(t, db.Discard())
	read, err := Open(path)
	must(t, err, read.Close())
}

// A file that cannot be extended is refused, and does not change by a byte.
func TestExtendRefuses(t *testing.T) {
	for _, c := range []struct {
		name, change string
		want         error
	}{
		{"a further table", "CREATE TABLE notes(text)", ErrOtherLayout},
		{"a trigger", "CREATE TRIGGER t AFTER INSERT ON rtl_session BEGIN DELETE FROM rtl_execution; END", ErrOtherLayout},
		{"a view less", "DROP VIEW top", ErrOtherLayout},
		{"another reason", "UPDATE rtl_reason SET name = 'bored' WHERE id = 2", ErrOtherLayout},
		{"a newer format", "PRAGMA user_version = 99", ErrNewerFormat},
		{"another tool's", "PRAGMA application_id = 1", ErrNotTrace},
		{"another boot", "UPDATE rocpd_metadata SET value = 'x' WHERE tag = 'boot_id'", ErrOtherBoot},
		{"no boot", "DELETE FROM rocpd_metadata WHERE tag = 'boot_id'", ErrOtherBoot},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, path := finished(t)
			change(t, path, c.change)
			before := bytesOf(t, path)
			if _, err := extendAt(path); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if bytesOf(t, path) != before {
				t.Error("it was changed")
			}
		})
	}
}

func TestExtendRefusesOtherFiles(t *testing.T) {
	_, path := finished(t)
	at := func(name string) string { return filepath.Join(filepath.Dir(path), name) }
	must(t, os.WriteFile(at("text"), []byte("this is not a database, but it is long enough to be looked at"), 0o644),
		os.Symlink(path, at("link")), os.Mkdir(at("folder"), 0o755), os.Link(path, at("second")))
	for name, want := range map[string]error{
		"text": ErrNotTrace, "link": ErrNotTrace, "folder": ErrNotTrace, "second": ErrForeign, "no/such": ErrUnwritable,
	} {
		if _, err := extendAt(at(name)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// A trace has at most one writer, and no new one while it is read.
func TestExtendBusy(t *testing.T) {
	db := create(t)
	record(t, begin(t, db, 42), 0x300)
	if _, err := extendAt(db.place.Path); !errors.Is(err, ErrBusy) {
		t.Errorf("while it is written: %v", err)
	}
	must(t, db.Close())
	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	reading, err := read.Query("SELECT * FROM rtl_reason")
	must(t, err)
	reading.Next()
	if _, err := extendAt(db.place.Path); !errors.Is(err, ErrBusy) {
		t.Errorf("while it is read: %v", err)
	}
	must(t, reading.Close())
	again, err := extendAt(db.place.Path)
	must(t, err)
	must(t, again.Discard())
}

// A recorder that is killed while it extends a trace loses nothing of earlier sessions;
// another recorder can extend the trace again.
func TestExtendKilled(t *testing.T) {
	_, path := finished(t)
	for range 3 {
		committed := killRecorder(t, path)
		db, err := Open(path)
		must(t, err)
		var last int
		must(t, db.QueryRow(`SELECT count(*) FROM rtl_dispatch WHERE queue_id IN
			(SELECT id FROM rtl_queue WHERE session_id = (SELECT max(id) FROM rtl_session))`).Scan(&last))
		if last < committed {
			t.Errorf("%d dispatches, %d were committed", last, committed)
		}
		expect(t, db, "SELECT count(*) FROM rtl_dispatch WHERE queue_id = 1", "3")
		expect(t, db, "SELECT id FROM rtl_session WHERE ended_ns IS NOT NULL", "1")
		expect(t, db, "PRAGMA integrity_check", "ok")
		must(t, db.Close())
	}
}
