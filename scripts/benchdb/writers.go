package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// The writers in this program; writers/ has the others.

// batchRows is the size of the collector's batches.
const batchRows = 4096

// create creates a trace with all definitions.
func create(path string) (*tracedb.DB, *tracedb.Session, error) {
	place, err := tracedb.Check(path, 1)
	if err != nil {
		return nil, nil, err
	}
	db, err := tracedb.Create(place)
	if err != nil {
		return nil, nil, err
	}
	s, err := db.Begin(tracedb.SessionInfo{PID: 1, Command: "server"})
	if err == nil {
		err = define(s)
	}
	return db, s, err
}

// template creates the trace that some writers fill.
func template(path string) error {
	db, _, err := create(path)
	return errors.Join(err, db.Close())
}

// writeOurs writes as the recorder does.
func writeOurs(path string, rows uint64) error {
	db, s, err := create(path)
	if err != nil {
		return err
	}
	return timed(func() error {
		batch := make([]tracedb.Dispatch, 0, batchRows)
		for n := range rows {
			batch = append(batch, dispatch(n))
			if len(batch) == cap(batch) || n == rows-1 {
				if err := s.Dispatches(batch); err != nil {
					return err
				}
				batch = batch[:0]
			}
		}
		return db.Close()
	})
}

// writeRowByRow is the usual way with go-sqlite3: a prepared statement and
// transactions, in a trace that has all definitions.
func writeRowByRow(path string, rows uint64) error {
	pool, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", Opaque: url.PathEscape(path)}).String())
	if err != nil {
		return err
	}
	defer pool.Close()
	conn, err := pool.Conn(context.Background())
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.ExecContext(context.Background(), `PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = TRUNCATE;
		PRAGMA synchronous = OFF; PRAGMA cache_size = -65536`)
	if err != nil {
		return err
	}
	return timed(func() error { return errors.Join(insertAll(conn, rows), syncFile(path)) })
}

func insertAll(conn *sql.Conn, rows uint64) error {
	tx, err := conn.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	insertContext, err := tx.Prepare("INSERT INTO rtl_context VALUES(?,?,?,?,0)")
	if err != nil {
		return err
	}
	for c := range pairs * threads {
		if _, err := insertContext.Exec(c+1, c/threads%queues+1, c/threads%launches+1, c%threads+1); err != nil {
			return err
		}
	}
	insert, err := tx.Prepare("INSERT INTO rtl_execution VALUES(NULL,?,?,?,?,?)")
	if err != nil {
		return err
	}
	for n := range rows {
		d := dispatch(n)
		context := int64(n%pairs*threads + n/64%threads + 1)
		_, err := insert.Exec(context, int64(d.Index), int64(d.StartNS), int64(d.EndNS-d.StartNS), int64(d.StartNS-d.SubmitNS))
		if err != nil {
			return err
		}
	}
	return errors.Join(insertContext.Close(), insert.Close(), tx.Commit())
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// timed prints the time that the work took, in ns: wall, processor.
func timed(work func() error) error {
	wall, cpu := time.Now(), processorNS()
	if err := work(); err != nil {
		return err
	}
	_, err := fmt.Println(time.Since(wall).Nanoseconds(), processorNS()-cpu)
	return err
}

func processorNS() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return t.Nano()
}
