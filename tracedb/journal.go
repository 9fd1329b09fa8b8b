package tracedb

import (
	"errors"
	"fmt"
	"os"

	"github.com/mattn/go-sqlite3"
	"golang.org/x/sys/unix"
)

// ErrJournal means that the recorder was killed, and that the journal beside the trace is
// not a recorder's, or not one that this user may roll back.
var ErrJournal = errors.New("its journal cannot be used")

// ErrCutOff means that the recorder was killed, and that this user lacks write permission for
// the trace, its journal or their directory, which rolling back the last transaction needs.
var ErrCutOff = errors.New("cut off, and not this user's to complete")

// rollbackError converts SQLite's errors for a failed rollback of a journal: the trace, the
// journal or their directory cannot be written.
func rollbackError(err error) error {
	var refused sqlite3.Error
	if !errors.As(err, &refused) {
		return err
	}
	denied := errors.Is(refused.SystemErrno, os.ErrPermission)
	switch {
	case refused.Code == sqlite3.ErrReadonly, // the trace
		refused.Code == sqlite3.ErrCantOpen && denied,            // the journal
		refused.ExtendedCode == sqlite3.ErrIoErrDelete && denied: // the folder
		return fmt.Errorf("%w: %w", ErrCutOff, err)
	}
	return err
}

// journalMagic ends a journal that names a super-journal (sqlite.org/fileformat2,
// "The Rollback Journal"): SQLite would open that file, whatever it is and
// wherever, and may remove it. A trace has one file and no super-journal.
const journalMagic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"

// hasJournal reports whether a killed recorder's journal is beside the trace. Where
// recorders take no locks (Place.dataSource) the journal may belong to a live recorder, and
// a reader that rolled it back would break the trace.
func hasJournal(path string) (bool, error) {
	journal := path + "-journal"
	fd, err := unix.Open(journal, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%w: %w", ErrJournal, err)
	}
	f := os.NewFile(uintptr(fd), journal)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG { // SQLite would wait for a FIFO's writer
		return false, fmt.Errorf("%w: %s is no file", ErrJournal, journal)
	}
	if err := hasLocks(fd); err != nil {
		return false, err
	}
	if st.Size == 0 {
		return false, nil
	}
	tail := make([]byte, len(journalMagic))
	if _, err := f.ReadAt(tail, max(0, st.Size-int64(len(tail)))); err != nil && st.Size >= int64(len(tail)) {
		return false, err
	}
	if string(tail) == journalMagic {
		return false, fmt.Errorf("%w: %s is none of a recorder's", ErrJournal, journal)
	}
	if uid, _, sudo := userBehindSudo(); os.Geteuid() == 0 && st.Uid != 0 && (!sudo || int(st.Uid) != uid) {
		return false, fmt.Errorf("%w: %s is uid %d's: run this as that user", ErrJournal, journal, st.Uid)
	}
	return true, nil
}

func hasLocks(fd int) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if name := networkFilesystems[fs.Type]; name != "" {
		return fmt.Errorf("%w: the trace is still being written, or cut off, and on %s nothing tells which: "+
			"wait for its end, or, if its recorder is dead, copy it and its -journal to a local disk", ErrJournal, name)
	}
	return nil
}
