package tracedb

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// commitAll commits everything now.
func commitAll(t *testing.T, db *DB) {
	t.Helper()
	db.due = true
	must(t, db.Flush())
}

// TestReadWhileRecorded: a reader sees one commit until it closes the trace, and the
// recorder goes on afterwards.
func TestReadWhileRecorded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.db")
	r := startRecorder(t, path)
	for range 3 {
		committed := r.committed(t)
		read, err := Open(path)
		must(t, err)
		seen := rows(t, read, "SELECT count(*), (SELECT max(id) FROM rtl_execution) FROM rtl_execution")
		for range 12 {
			time.Sleep(commitEvery / 10) // the recorder would commit, and must not
			expect(t, read, "SELECT count(*), (SELECT max(id) FROM rtl_execution) FROM rtl_execution", seen...)
			expect(t, read, "SELECT ended_ns FROM rtl_session", "NULL")
		}
		var dispatches int
		must(t, read.QueryRow("SELECT count(*) FROM kernel").Scan(&dispatches), read.Close())
		if dispatches < committed {
			t.Errorf("%d dispatches, %d were committed", dispatches, committed)
		}
		if more := r.committed(t); more <= dispatches {
			t.Errorf("after the reader: %d dispatches, %d before", more, dispatches)
		}
	}
	r.kill(t)
	read, err := Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "PRAGMA integrity_check", "ok")
}

// TestReadWhileCreated: a trace is created although somebody has begun to read the empty file. The
// reader ends when it sees that the creation waits for it.
func TestReadWhileCreated(t *testing.T) {
	place, err := Check(filepath.Join(t.TempDir(), "trace.db"), 1)
	must(t, err)
	file, err := place.MakeFile()
	must(t, err)
	reader := func() *sql.DB {
		db, err := sql.Open("sqlite3", "file:"+place.Path+"?mode=ro&_busy_timeout=0")
		must(t, err)
		db.SetMaxOpenConns(1)
		return db
	}
	first, second := reader(), reader()
	defer second.Close()
	must(t, first.Ping(), second.Ping()) // connecting reads the file, too
	read, err := first.Begin()
	must(t, err)
	var none int
	must(t, read.QueryRow("SELECT count(*) FROM sqlite_master").Scan(&none))
	db, created := newDB(place, file), make(chan error, 1)
	go func() { created <- db.open() }()
	for waits := false; !waits; {
		select {
		case err := <-created:
			t.Fatalf("it did not wait for the reader: %v", err)
		default:
			waits = isBusy(second.QueryRow("SELECT count(*) FROM sqlite_master").Scan(&none))
		}
	}
	must(t, read.Rollback(), first.Close(), <-created)
	record(t, begin(t, db, 42), 0x300)
	must(t, db.Close())
}

// TestReaderThatStays: records wait in memory for a reader as long as there is room; then
// the recorder waits, and in the end says why the trace is not complete.
func TestReaderThatStays(t *testing.T) {
	db := create(t)
	db.patience = 50 * time.Millisecond
	s := begin(t, db, 42)
	commitAll(t, db)
	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	must(t, s.Dispatches(make([]Dispatch, 100)))
	db.held = mostHeld
	db.due = true
	if err := db.Flush(); !errors.Is(err, ErrHeldUp) {
		t.Errorf("got %v", err)
	}
	if err := db.Close(); !errors.Is(err, ErrHeldUp) {
		t.Errorf("close: %v", err)
	}
}

// sqliteShell runs a query in SQLite's shell.
func sqliteShell(t *testing.T, path, query string) (string, error) {
	t.Helper()
	shell, err := exec.LookPath("sqlite3")
	if err != nil {
		testenv.Skip(t, "no sqlite3")
	}
	out, err := exec.Command(shell, path, query).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// TestShellWhileRecorded: other programs can read the trace, too, but not write to it.
func TestShellWhileRecorded(t *testing.T) {
	db := create(t)
	s := begin(t, db, 42)
	record := Dispatch{Queue: 1, Launch: 1, StartNS: 1000, EndNS: 1500}
	must(t, s.Queue(Queue{ID: 1}), s.Launch(Launch{ID: 1, Symbol: "k.kd"}), s.Dispatches([]Dispatch{record}))
	commitAll(t, db)
	must(t, s.Dispatches([]Dispatch{record})) // not committed
	if said, err := sqliteShell(t, db.place.Path, "SELECT name, duration_ns FROM kernel"); said != "k|500" || err != nil {
		t.Errorf("%q, %v", said, err)
	}
	if said, err := sqliteShell(t, db.place.Path, "DELETE FROM rtl_execution"); err == nil || !strings.Contains(said, "locked") {
		t.Errorf("%q, %v", said, err)
	}
	must(t, s.End(End{}), db.Close())
	if said, err := sqliteShell(t, db.place.Path, "SELECT count(*) FROM kernel; PRAGMA integrity_check"); said != "2\nok" || err != nil {
		t.Errorf("%q, %v", said, err)
	}
}

func TestInProgress(t *testing.T) {
	path := t.TempDir() + "/trace.db"
	committed := killRecorder(t, path) // it also checks the trace of the live recorder
	if live, err := InProgress(path); live || err != nil || committed == 0 {
		t.Errorf("after its death: %v, %v", live, err)
	}
}

// TestCutOffSaysHowFar: the trace of a recorder that dies has its windows, queues and
// accounts, and the time up to which its records are complete.
func TestCutOffSaysHowFar(t *testing.T) {
	db := create(t)
	s, err := db.Begin(SessionInfo{PID: 42, ArmedNS: 700, Recorder: Recorder{PID: 7, StartTicks: 8, PIDNamespace: 9}})
	must(t, err,
		s.Queue(Queue{ID: 1, Agent: 1}),
		s.Window(Window{Queue: 1, OpenNS: 800, Index: 3, RawBefore: 2, QueuedBefore: 1}),
		s.Write(Batch{
			Dispatches: []Dispatch{{Queue: 1, StartNS: 1000, EndNS: 1500}},
			Coverage:   []Coverage{{Queue: 1, Windows: 1, WindowsOpen: 1, Timed: 1, RawBefore: 2}},
		}),
		s.Mark(Mark{UntilNS: 4000}),
		s.Flush()) // an opening window is committed at once
	must(t, s.Mark(Mark{UntilNS: 9000}), s.Dispatches([]Dispatch{{Queue: 1, StartNS: 5000, EndNS: 5500}})) // lost with the recorder
	read, err := Open(db.place.Path)
	must(t, err)
	expect(t, read, "SELECT armed_ns, window_start_ns, window_end_ns, recorded_until_ns, ended_ns, end_reason FROM rtl_session",
		"700|700|NULL|4000|NULL|NULL")
	expect(t, read, "SELECT recorder_pid, recorder_start_ticks, recorder_pid_namespace FROM rtl_session", "7|8|9")
	expect(t, read, "SELECT opened_ns, closed_ns, first_index, raw_before, queued_before FROM rtl_window", "800|NULL|3|2|1")
	expect(t, read, "SELECT windows, windows_open, timed, unexplained, raw_before FROM rtl_coverage", "1|1|1|0|2")
	expect(t, read, "SELECT count(*) FROM rtl_execution", "1")
	must(t, read.Close())
	db.retryAt = time.Time{}
	must(t,
		s.Window(Window{Queue: 1, OpenNS: 800, Index: 3, RawBefore: 2, QueuedBefore: 1, Closed: true, CloseNS: 9500, EndIndex: 5, Dispatches: 2}),
		s.End(End{
			Reason: EndElapsed, DetachedNS: 9600, WindowEndNS: 9000, UntilNS: 9600,
			Coverage: []Coverage{{Queue: 1, Windows: 1, Dispatches: 2, Timed: 2}},
		}),
		db.Close())
	read, err = Open(db.place.Path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT armed_ns, window_start_ns, window_end_ns, recorded_until_ns, ended_ns > 0, end_reason FROM rtl_session",
		"700|700|9000|9600|1|duration elapsed")
	expect(t, read, "SELECT opened_ns, closed_ns, end_index, dispatches FROM rtl_window", "800|9500|5|2")
	expect(t, read, "SELECT windows, windows_open, timed FROM rtl_coverage", "1|0|2")
}

// TestFullDiskIsSaid: SQLite runs out of room, and the trace still records it.
func TestFullDiskIsSaid(t *testing.T) {
	db := create(t)
	s := begin(t, db, 42)
	must(t, s.Dispatches(make([]Dispatch, 100)), s.Mark(Mark{UntilNS: 4000}))
	commitAll(t, db)
	must(t, db.exec("PRAGMA max_page_count = 80"))
	now := db.now()
	db.now = func() time.Time { return now } // nothing more is due before the disk is full
	var err error
	given := 0
	for ; err == nil; given += 1000 {
		err = s.Dispatches(make([]Dispatch, 1000))
	}
	db.now = time.Now
	if n := s.Unwritten(); !errors.Is(err, ErrNoSpace) || n != uint64(given) {
		t.Fatalf("%d of %d not written: %v", n, given, err)
	}
	must(t, s.EndUnwritten(End{Reason: EndDiskFull, DetachedNS: 9600, WindowEndNS: 9000},
		Loss{Cause: CauseDiskFull, Records: s.Unwritten(), UntilNS: 9600}))
	if closing := db.Close(); !errors.Is(closing, ErrNoSpace) {
		t.Errorf("close: %v", closing)
	}
	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT count(*) FROM rtl_execution", "100")
	expect(t, read, "SELECT ended_ns, end_reason, window_end_ns, recorded_until_ns FROM rtl_session", "NULL|disk full|9000|4000")
	expect(t, read, "SELECT cause, records, from_ns, until_ns FROM rtl_loss", fmt.Sprintf("%s|%d|4000|9600", CauseDiskFull, given))
	expect(t, read, "PRAGMA integrity_check", "ok")
	if _, err := os.Stat(db.place.Path + "-journal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("beside it: %v", err)
	}
}

// TestNewerFormat: Open says that a newer format is newer, not damaged or unknown.
func TestNewerFormat(t *testing.T) {
	_, path := finished(t)
	change(t, path, fmt.Sprintf("PRAGMA user_version = %d", formatVersion+1))
	want := fmt.Sprintf("this trace was written by a newer rtl-attach (format %d; this one reads up to %d)", formatVersion+1, formatVersion)
	_, opened := Open(path)
	_, extended := extendAt(path)
	for _, err := range []error{opened, extended} {
		if !errors.Is(err, ErrNewerFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
	}
}

// writtenBy runs SQL on a trace before it is read.
func writtenBy(t *testing.T, statements string) *sql.DB {
	t.Helper()
	_, path := finished(t)
	change(t, path, statements)
	read, err := Open(path)
	must(t, err)
	t.Cleanup(func() { _ = read.Close() })
	return read
}
