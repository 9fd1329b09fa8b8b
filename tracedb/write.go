package tracedb

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/mattn/go-sqlite3"
)

const (
	// retryCommit is how long a commit that a reader holds up waits for its next attempt.
	retryCommit = 10 * time.Millisecond

	// mostHeld bounds the records, of some 32 bytes, that wait in memory for readers to
	// end. With more the recorder takes none from the ring until one of them does.
	mostHeld = 8 << 20
)

// ErrHeldUp: somebody has kept the file open in a read or write of their own.
var ErrHeldUp = errors.New("another program has kept the trace file locked")

// The steps of a write. All of them run with db.mu held, except while the file
// is being created.

// reserve opens the next transaction. It keeps other writers out, and no readers.
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

// begin notes when the open transaction got its first change.
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

// commit writes what the open transaction holds. While somebody reads the file it only
// tries to: the records stay in memory, for as long as there is room.
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

// tryCommit returns SQLite's busy error where readers are in the way.
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
		s.mark.committed = s.mark.given
	}
	return nil
}

func (db *DB) flushAll() error {
	errs := []error{db.contexts.flush(), db.executions.flush(), db.untimed.flush(), db.flushKinds()}
	for _, s := range db.sessions {
		errs = append(errs, s.writeMark())
	}
	return errors.Join(errs...)
}

// isDue: what is open has been so for long enough, or others wait for it.
func (db *DB) isDue() bool {
	return !db.begun.IsZero() && (db.due || db.now().Sub(db.begun) >= commitEvery) && !db.now().Before(db.retryAt)
}

// write runs one change inside the open transaction and commits when it is time.
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

// fail undoes the open transaction and remembers why: a file that misses rows
// in its middle would look complete. A full disk usually ends here.
func (db *DB) fail(err error) error {
	if db.failure != nil {
		return db.failure
	}
	if full := (sqlite3.Error{}); errors.As(err, &full) && full.Code == sqlite3.ErrFull {
		err = fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	db.failure = err
	db.begun, db.reserved = time.Time{}, false
	// SQLite has rolled back by itself after some errors; a second time is refused, harmlessly.
	_ = db.exec("ROLLBACK")
	return err
}

// Failure returns the error with which writing the file has failed; nil: it has not.
func (db *DB) Failure() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.failure
}

// afterFailure makes a small change to a file that could not be written on. It goes into
// pages that are there, and its journal into memory: a full disk has room for it.
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
