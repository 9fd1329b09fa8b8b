package tracedb

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/mattn/go-sqlite3"
)

const (
	// retryCommit is the time between attempts of a commit that a reader blocks.
	retryCommit = 10 * time.Millisecond

	// mostHeld limits the records, of some 32 bytes each, that wait in memory for readers
	// to end. With more the recorder takes no records from the ring until a commit succeeds.
	mostHeld = 8 << 20
)

// ErrHeldUp is the error for a file that another program keeps locked.
var ErrHeldUp = errors.New("another program has kept the trace file locked")

// The steps of a write run with db.mu held, except while the file is being created.

// reserve opens the next transaction. It blocks other writers, but no readers.
func (db *DB) reserve() error {
	for deadline := db.now().Add(db.patience); ; time.Sleep(retryCommit) {
		err := db.exec("BEGIN IMMEDIATE")
		switch {
		case !isBusy(err):
			db.reserved = err == nil
			return err
		case db.now().After(deadline):
			return fmt.Errorf("%w for %v: %w", ErrHeldUp, db.patience, err)
		}
	}
}

// begin notes the time of the open transaction's first change.
func (db *DB) begin() error {
	if db.failure != nil {
		return db.failure
	}
	if !db.begun.IsZero() {
		return nil
	}
	if !db.reserved {
		if err := db.reserve(); err != nil {
			return db.fail(err)
		}
	}
	db.begun = db.now()
	return nil
}

// commit commits the open transaction. While another program reads the file it only tries
// to: the records stay in memory, up to mostHeld.
func (db *DB) commit() error {
	err := db.tryCommit()
	if !isBusy(err) {
		return err
	}
	db.retryAt = db.now().Add(retryCommit)
	if db.held < mostHeld {
		return nil
	}
	return db.commitWaiting()
}

// commitWaiting waits for readers to end.
func (db *DB) commitWaiting() error {
	for deadline := db.now().Add(db.patience); ; time.Sleep(retryCommit) {
		err := db.tryCommit()
		switch {
		case !isBusy(err):
			return err
		case db.now().After(deadline):
			return db.fail(fmt.Errorf("%w for %v: %w", ErrHeldUp, db.patience, err))
		}
	}
}

// tryCommit commits once. It returns SQLite's busy error if readers block it.
func (db *DB) tryCommit() error {
	if db.failure != nil || db.begun.IsZero() {
		return db.failure
	}
	if err := db.flushAll(); err != nil {
		return db.fail(err)
	}
	switch err := db.exec("COMMIT"); {
	case isBusy(err):
		return err
	case err != nil:
		return db.fail(err)
	}
	db.begun, db.retryAt, db.due, db.held, db.reserved = time.Time{}, time.Time{}, false, 0, false
	for _, s := range db.sessions {
		s.mark.committed, s.mark.committedNS = s.mark.given, s.mark.untilNS
	}
	return nil
}

func (db *DB) flushAll() error {
	errs := []error{db.contexts.flush(), db.executions.flush(), db.filtered.flush(), db.untimed.flush(), db.flushKinds()}
	for _, s := range db.sessions {
		errs = append(errs, s.writeMark())
	}
	return errors.Join(errs...)
}

// isDue reports whether the open transaction is old enough to commit, or has rows that
// must be committed at once.
func (db *DB) isDue() bool {
	return !db.begun.IsZero() && (db.due || db.now().Sub(db.begun) >= commitEvery) && !db.now().Before(db.retryAt)
}

// write runs one change inside the open transaction, and commits if that is due.
func (db *DB) write(change func() error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.change(1, change)
}

func (db *DB) change(records int, change func() error) error {
	if err := db.begin(); err != nil {
		return err
	}
	db.held += records
	if err := change(); err != nil {
		return db.fail(err)
	}
	if db.now().Sub(db.begun) >= commitEvery && db.isDue() {
		return db.commitAndReserve()
	}
	return nil
}

func (db *DB) commitAndReserve() error {
	if err := db.commit(); err != nil || db.reserved {
		return err
	}
	if err := db.reserve(); err != nil {
		return db.fail(err)
	}
	return nil
}

// fail rolls the open transaction back and keeps the error: a file with rows missing in
// its middle would look complete. A full disk usually ends here.
func (db *DB) fail(err error) error {
	if db.failure != nil {
		return db.failure
	}
	if full := (sqlite3.Error{}); errors.As(err, &full) && full.Code == sqlite3.ErrFull {
		err = fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	db.failure = err
	db.begun, db.reserved = time.Time{}, false
	// After some errors SQLite has already rolled back; it then refuses this, harmlessly.
	_ = db.exec("ROLLBACK")
	return err
}

// Failure returns the error of the first failed write, or nil.
func (db *DB) Failure() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.failure
}

// afterFailure makes a small change to a file after a write has failed. The change fits
// into existing pages and its journal is in memory, so that it works on a full disk.
func (db *DB) afterFailure(change func() error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed || db.failure == nil {
		return db.failure
	}
	if err := db.exec("PRAGMA journal_mode = MEMORY"); err != nil {
		return err
	}
	if err := db.reserve(); err != nil {
		return err
	}
	err := change()
	for deadline := db.now().Add(db.patience); err == nil; time.Sleep(retryCommit) {
		if err = db.exec("COMMIT"); !isBusy(err) || db.now().After(deadline) {
			break
		}
		err = nil
	}
	db.reserved = false
	if err != nil {
		_ = db.exec("ROLLBACK")
	}
	return err
}

func isBusy(err error) bool {
	var refused sqlite3.Error
	return errors.As(err, &refused) && refused.Code == sqlite3.ErrBusy
}

func (db *DB) exec(query string, args ...any) error {
	_, err := db.conn.ExecContext(background, query, args...)
	return err
}

func (db *DB) insert(query string, args ...any) (id int64, err error) {
	var result sql.Result
	if result, err = db.conn.ExecContext(background, query, args...); err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

func (db *DB) each(query string, scan func(*sql.Rows) error, args ...any) error {
	rows, err := db.conn.QueryContext(background, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
