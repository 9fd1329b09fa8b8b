package tracedb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
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

// TestJournal: a journal that names another file is none of a recorder's.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.db")
	db, err := Create(Place{Path: path})
	must(t, err, db.Close(), os.WriteFile(path+"-journal", superJournal("/etc/passwd"), 0o600))
	before, err := os.ReadFile(path)
	must(t, err)
	if _, err := Open(path); !errors.Is(err, ErrJournal) {
		t.Errorf("opened: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the trace has changed: %v", err)
	}
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

// TestJournalOfSomebodyElse: root takes back nothing from another user's journal.
func TestJournalOfSomebodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("left out: not root")
	}
	path := filepath.Join(t.TempDir(), "trace.db")
	db, err := Create(Place{Path: path})
	must(t, err, db.Close())
	must(t, os.WriteFile(path+"-journal", make([]byte, 512), 0o600), os.Chown(path+"-journal", 4242, 4242))
	if _, err := Open(path); !errors.Is(err, ErrJournal) {
		t.Errorf("got %v", err)
	}
}
