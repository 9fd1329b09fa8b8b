package tracedb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/mattn/go-sqlite3"
)

// The steps of a write. All of them run with db.mu held, except while the file
// is being created.

// begin opens a transaction unless one is open.
func (db *DB) begin() error {
	if db.failure != nil {
		return db.failure
	}
	if !db.begun.IsZero() {
		return nil
	}
	if err := db.exec("BEGIN"); err != nil {
		return db.fail(err)
	}
	db.begun = time.Now()
	return nil
}

// commit ends the open transaction, if there is one, with the rows still held back.
func (db *DB) commit() error {
	if db.failure != nil || db.begun.IsZero() {
		return db.failure
	}
	if err := db.flushBulks(); err != nil {
		return db.fail(err)
	}
	if err := db.exec("COMMIT"); err != nil {
		return db.fail(err)
	}
	db.begun = time.Time{}
	return nil
}

func (db *DB) flushBulks() error {
	return errors.Join(db.executions.flush(), db.untimed.flush(), db.copies.flush())
}

// write runs one change inside the open transaction and commits when it is time.
func (db *DB) write(change func() error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.begin(); err != nil {
		return err
	}
	if err := change(); err != nil {
		return db.fail(err)
	}
	if time.Since(db.begun) >= commitEvery {
		return db.commit()
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
	db.begun = time.Time{}
	// SQLite has rolled back by itself after some errors; a second time is refused, harmlessly.
	_ = db.exec("ROLLBACK")
	return err
}

func (db *DB) exec(query string, args ...any) error {
	_, err := db.conn.ExecContext(context.Background(), query, args...)
	return err
}

func (db *DB) insert(query string, args ...any) (id int64, err error) {
	var result sql.Result
	if result, err = db.conn.ExecContext(context.Background(), query, args...); err != nil {
		return 0, err
	}
	return result.LastInsertId()
}
