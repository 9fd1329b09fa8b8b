package tracedb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/privilege"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// superJournal is a journal without pages that names a super-journal
// (sqlite.org/fileformat2, "The Rollback Journal").
func superJournal(name string) []byte {
	be := binary.BigEndian
	b := make([]byte, 512)
	copy(b, journalMagic)
	be.PutUint32(b[20:], 512)
	be.PutUint32(b[24:], 4096)
	sum := uint32(0)
	for _, c := range []byte(name) {
		sum += uint32(c)
	}
	b = be.AppendUint32(b, 0x40000000/4096+1) // of the page that locks lie on
	b = append(b, name...)
	b = be.AppendUint32(b, uint32(len(name)))
	b = be.AppendUint32(b, sum)
	return append(b, journalMagic...)
}

// TestJournal: a journal that names another file does not belong to a recorder.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.db")
	db, err := Create(Place{Path: path})
	must(t, err, db.Close(), os.WriteFile(path+"-journal", superJournal("/etc/passwd"), 0o600))
	before, err := os.ReadFile(path)
	must(t, err)
	link := filepath.Join(t.TempDir(), "latest.db")
	must(t, os.Symlink(path, link))
	for _, name := range []string{path, link} {
		if _, err := Open(name); !errors.Is(err, ErrJournal) {
			t.Errorf("opened: %v", err)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the trace has changed: %v", err)
	}
}

// cutOff writes a trace as a recorder leaves it that is killed inside a transaction.
func cutOff(t *testing.T) string {
	t.Helper()
	db := create(t)
	must(t, db.exec("BEGIN"), db.exec("DELETE FROM rtl_reason"))
	left := filepath.Join(t.TempDir(), "trace.db")
	for _, suffix := range []string{"", "-journal"} {
		data, err := os.ReadFile(db.place.Path + suffix)
		must(t, err, os.WriteFile(left+suffix, data, 0o600))
	}
	must(t, db.exec("ROLLBACK"), db.Close())
	return left
}

// TestCutOffByAnotherName: Open rolls a killed recorder's transaction back, also if it
// opens the trace through a link.
func TestCutOffByAnotherName(t *testing.T) {
	path := cutOff(t)
	link := filepath.Join(t.TempDir(), "latest.db")
	must(t, os.Symlink(path, link))
	db, err := Open(link)
	must(t, err)
	defer db.Close()
	expect(t, db, "SELECT count(*) FROM rtl_reason", fmt.Sprint(len(Reasons)))
}

// TestCutOffWithoutPermission: a user without write permission on trace, journal or folder
// gets ErrCutOff, one without read permission os.ErrPermission; the journal does not change.
func TestCutOffWithoutPermission(t *testing.T) {
	type modes struct{ trace, journal, folder os.FileMode }
	for modes, want := range map[modes]error{
		{0o400, 0o600, 0o700}: ErrCutOff,
		{0o600, 0o400, 0o700}: ErrCutOff,
		{0o600, 0o600, 0o500}: ErrCutOff,
		{0o400, 0o400, 0o500}: ErrCutOff,
		{0o000, 0o400, 0o700}: os.ErrPermission,
		{0o600, 0o600, 0o700}: nil,
	} {
		path := cutOff(t)
		journal, err := os.ReadFile(path + "-journal")
		must(t, err, os.Chmod(path, modes.trace), os.Chmod(path+"-journal", modes.journal), os.Chmod(filepath.Dir(path), modes.folder))
		err = asOwner(t, func() error {
			db, err := Open(path)
			if err != nil {
				return err
			}
			return db.Close()
		})
		must(t, os.Chmod(filepath.Dir(path), 0o700))
		if !errors.Is(err, want) {
			t.Errorf("%o: %v", modes, err)
		}
		if left, err := os.ReadFile(path + "-journal"); want != nil && (err != nil || !bytes.Equal(left, journal)) {
			t.Errorf("%o: the journal has changed: %v", modes, err)
		}
	}
}

// asOwner calls fn with the rights that file modes give to the owner; root has more.
func asOwner(t *testing.T, fn func() error) error {
	t.Helper()
	groups, err := os.Getgroups()
	must(t, err)
	return privilege.User{UID: os.Geteuid(), GID: os.Getegid(), Groups: groups}.Do(fn)
}

// TestUnreadable: opening a trace without read permission says so.
func TestUnreadable(t *testing.T) {
	db := create(t)
	path := db.place.Path
	must(t, db.Close(), os.Chmod(path, 0))
	err := asOwner(t, func() error {
		_, err := Open(path)
		return err
	})
	if !errors.Is(err, os.ErrPermission) {
		t.Errorf("got %v", err)
	}
}

// onNetwork makes the package take the filesystem of this test's files for one without
// locks.
func onNetwork(t *testing.T) {
	t.Helper()
	var fs unix.Statfs_t
	must(t, unix.Statfs(t.TempDir(), &fs))
	was := maps.Clone(networkFilesystems)
	t.Cleanup(func() { networkFilesystems = was })
	networkFilesystems[fs.Type] = "nfs"
}

// TestLiveTraceWithoutLocks: on a filesystem without locks a reader does not roll a live
// recorder's transaction back, inside a transaction or between two.
func TestLiveTraceWithoutLocks(t *testing.T) {
	onNetwork(t)
	db := create(t)
	s := begin(t, db, 42)
	path := db.place.Path
	for range 2 {
		if read, err := Open(path); !errors.Is(err, ErrJournal) {
			t.Errorf("a trace being written was opened: %v", errors.Join(err, read.Close()))
		}
		must(t, s.Dispatches(make([]Dispatch, 100)))
		db.due = true
		must(t, db.Flush())
	}
	must(t, db.Close())
	read, err := Open(path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT count(*) FROM rtl_dispatch", "200")
	expect(t, read, "PRAGMA integrity_check", "ok")
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "fifo.db")
	must(t, unix.Mkfifo(path, 0o600))
	if _, err := Open(path); !errors.Is(err, ErrNotTrace) {
		t.Errorf("a FIFO: %v", err)
	}
	trace := filepath.Join(dir, "trace.db")
	db, err := Create(Place{Path: trace})
	must(t, err, db.Close())
	must(t, unix.Mkfifo(trace+"-journal", 0o600))
	if _, err := Open(trace); !errors.Is(err, ErrJournal) {
		t.Errorf("a journal that is a FIFO: %v", err)
	}
	must(t, os.Remove(trace+"-journal"), os.Symlink(path, trace+"-journal"))
	if _, err := Open(trace); !errors.Is(err, ErrJournal) {
		t.Errorf("a journal that is a link: %v", err)
	}
}

// TestJournalOfAnotherUser: root does not apply another user's journal.
func TestJournalOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "not root")
	}
	path := filepath.Join(t.TempDir(), "trace.db")
	db, err := Create(Place{Path: path})
	must(t, err, db.Close())
	must(t, os.WriteFile(path+"-journal", make([]byte, 512), 0o600), os.Chown(path+"-journal", 4242, 4242))
	if _, err := Open(path); !errors.Is(err, ErrJournal) {
		t.Errorf("got %v", err)
	}
}
