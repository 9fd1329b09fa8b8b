package tracedb

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/mattn/go-sqlite3"
)

var (
	// ErrNotTrace: the file is no trace of this tool, or of a newer one.
	ErrNotTrace = errors.New("not a trace of rtl-attach")
	// ErrBusy: a recorder is still writing the file.
	ErrBusy = errors.New("trace is still being written")
)

// Open opens a trace for reading.
func Open(path string) (*sql.DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	mode := "ro"
	if info, err := os.Stat(path + "-journal"); err == nil && info.Size() > 0 {
		mode = "rw" // the recorder was killed: SQLite has to take its last moments back first
	}
	source := url.URL{Scheme: "file", Opaque: url.PathEscape(path), RawQuery: "mode=" + mode + "&_busy_timeout=200"}
	db, err := sql.Open("sqlite3", source.String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if err := checkFormat(db); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), db.Close())
	}
	return db, nil
}

func checkFormat(db *sql.DB) error {
	var application, version int
	err := db.QueryRow("SELECT application_id, user_version FROM pragma_application_id, pragma_user_version").
		Scan(&application, &version)
	var refused sqlite3.Error
	switch {
	case errors.As(err, &refused) && refused.Code == sqlite3.ErrBusy:
		return ErrBusy
	case errors.As(err, &refused) && refused.Code == sqlite3.ErrNotADB:
		return ErrNotTrace
	case err != nil:
		return err
	case application != applicationID || version > formatVersion:
		return fmt.Errorf("%w: application id %#x, format %d", ErrNotTrace, application, version)
	}
	return nil
}
