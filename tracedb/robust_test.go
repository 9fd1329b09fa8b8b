package tracedb

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"
)

func owner(info fs.FileInfo) (uid, gid uint32) {
	stat := info.Sys().(*syscall.Stat_t)
	return stat.Uid, stat.Gid
}

// The environment variable makes TestKilledRecorder's child of this test binary.
const killedPath = "RTL_TEST_KILLED_RECORDER"

func TestMain(m *testing.M) {
	if path := os.Getenv(killedPath); path != "" {
		recordForever(path)
	}
	os.Exit(m.Run())
}

// recordForever writes until it is killed and prints how many dispatches are
// committed whenever that changes.
func recordForever(path string) {
	db, err := extendAt(path)
	if err != nil {
		panic(err)
	}
	s, err := db.Begin(SessionInfo{PID: 42})
	if err != nil {
		panic(err)
	}
	committed := 0
	for n := 0; ; n += 100 {
		time.Sleep(time.Millisecond) // the file stays small
		if err := s.Dispatches(make([]Dispatch, 100)); err != nil {
			panic(err)
		}
		if s.Unwritten() == 0 && n > committed {
			committed = n + 100
			_, _ = os.Stdout.WriteString(strconv.Itoa(committed) + "\n")
		}
	}
}

func TestKilledRecorder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.db")
	committed := killRecorder(t, path)
	db, err := Open(path)
	must(t, err)
	defer db.Close()
	var dispatches int
	must(t, db.QueryRow("SELECT count(*) FROM rtl_dispatch").Scan(&dispatches))
	if dispatches < committed {
		t.Errorf("%d dispatches, %d were committed", dispatches, committed)
	}
	expect(t, db, "SELECT ended_ns IS NULL FROM rtl_session", "1")
	expect(t, db, "PRAGMA integrity_check", "ok")
}

// killRecorder kills a recorder of the file while it writes, and returns how many
// dispatches it had committed.
func killRecorder(t *testing.T, path string) (committed int) {
	t.Helper()
	r := startRecorder(t, path)
	committed = r.committed(t)
	read, openErr := Open(path)
	must(t, openErr, read.Close())
	if live, liveErr := InProgress(path); !live || liveErr != nil {
		t.Errorf("a trace being written: in progress: %v, %v", live, liveErr)
	}
	r.kill(t)
	return committed
}

// recorder is a process that records until it is killed.
type recorder struct {
	child *exec.Cmd
	said  *bufio.Reader
}

func startRecorder(t *testing.T, path string) *recorder {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), killedPath+"="+path)
	out, err := child.StdoutPipe()
	must(t, err, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill() })
	return &recorder{child, bufio.NewReader(out)}
}

// committed waits for a commit, and returns how many dispatches the trace has then.
func (r *recorder) committed(t *testing.T) int {
	t.Helper()
	line, err := r.said.ReadString('\n')
	must(t, err)
	n, err := strconv.Atoi(line[:len(line)-1])
	must(t, err)
	return n
}

func (r *recorder) kill(t *testing.T) {
	t.Helper()
	must(t, r.child.Process.Kill())
	_ = r.child.Wait() // "killed"
}

// max_page_count makes SQLite see a full disk.
func TestFullDisk(t *testing.T) {
	db := create(t)
	s := begin(t, db, 42)
	must(t, s.Dispatches(make([]Dispatch, 100)))
	db.due = true
	must(t, s.Flush(), db.exec("PRAGMA max_page_count = 80"))
	now := db.now()
	db.now = func() time.Time { return now } // nothing more is due before the disk is full

	err := s.Dispatches(make([]Dispatch, 1000))
	must(t, err)
	db.begun = db.begun.Add(time.Hour) // no commit is due before the disk is full, on a slow machine either
	for range 1000 {
		if err = s.Dispatches(make([]Dispatch, 1000)); err != nil {
			break
		}
	}
	var full sqlite3.Error
	if !errors.As(err, &full) || full.Code != sqlite3.ErrFull {
		t.Fatalf("got %v", err)
	}
	if again := s.Lost(Loss{}); !errors.Is(again, err) {
		t.Errorf("after the failure: %v", again)
	}
	if closing := db.Close(); !errors.Is(closing, err) {
		t.Errorf("close: %v", closing)
	}

	read, err := Open(db.place.Path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT count(*) FROM rtl_dispatch", "100")
	expect(t, read, "PRAGMA integrity_check", "ok")
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	must(t, os.WriteFile(path, []byte("this is not a database, but it is long enough to be looked at"), 0o644))
	if _, err := Open(path); !errors.Is(err, ErrNotTrace) {
		t.Errorf("got %v", err)
	}
	if _, err := Open(path + ".missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}
