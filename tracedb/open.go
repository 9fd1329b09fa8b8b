package tracedb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/mattn/go-sqlite3"
	"golang.org/x/sys/unix"
)

var (
	// ErrNotTrace: the file is no trace of this tool, or of a newer one.
	ErrNotTrace = errors.New("not a trace of rtl-attach")
	// ErrBusy: a recorder is still writing the file.
	ErrBusy = errors.New("trace is still being written")
)

// Open opens a trace for reading. The file may have been made by anybody: only
// its tables are used. What it says of views is not, and tables that compute
// something when they are read are refused.
func Open(path string) (*sql.DB, error) {
	file, err := filepath.EvalSymlinks(path) // SQLite's journal lies beside the file itself
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("open %s: %w", path, ErrNotTrace)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, file, unix.R_OK, unix.AT_EACCESS); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	mode := "ro"
	switch recover, err := hasJournal(file); {
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", path, err)
	case recover:
		mode = "rw" // SQLite has to take the recorder's last moments back first
	}
	source := url.URL{Scheme: "file", Opaque: url.PathEscape(file), RawQuery: "mode=" + mode + "&_busy_timeout=200"}
	db := sql.OpenDB(reader(source.String()))
	if err := checkFormat(db); err != nil {
		if mode == "rw" {
			err = takeBackError(err)
		}
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), db.Close())
	}
	return db, nil
}

// A reader makes connections to a file that is not trusted.
type reader string

func (r reader) Driver() driver.Driver { return &sqlite3.SQLiteDriver{ConnectHook: distrust} }

func (r reader) Connect(context.Context) (driver.Conn, error) { return r.Driver().Open(string(r)) }

// longestValue bounds what one value of a file can make us allocate.
const longestValue = 1 << 24

func distrust(c *sqlite3.SQLiteConn) error {
	const limitLength = 0 // SQLITE_LIMIT_LENGTH
	c.SetLimit(limitLength, longestValue)
	_, err := c.Exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"+ownViews(), nil)
	return err
}

// ownViews are this version's views, in front of the file's.
var ownViews = sync.OnceValue(func() string {
	var b strings.Builder
	for _, statement := range strings.SplitAfter(schema+copySchema, ";\n") {
		if at := strings.Index(statement, "CREATE VIEW "); at >= 0 {
			b.WriteString("CREATE TEMP VIEW " + statement[at+len("CREATE VIEW "):])
		}
	}
	return b.String()
})

func checkFormat(db *sql.DB) error {
	if err := checkVersion(db); err != nil {
		return err
	}
	return checkTables(db)
}

func checkVersion(db querier) error {
	var application, version int
	err := db.QueryRowContext(background, "SELECT application_id, user_version FROM pragma_application_id, pragma_user_version").
		Scan(&application, &version)
	if err != nil {
		return readError(err)
	}
	if application != applicationID || version > formatVersion {
		return fmt.Errorf("%w: application id %#x, format %d", ErrNotTrace, application, version)
	}
	return nil
}

// readError tells from SQLite's errors those with a meaning for who opens a trace.
func readError(err error) error {
	var refused sqlite3.Error
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Code {
	case sqlite3.ErrBusy:
		return ErrBusy
	case sqlite3.ErrNotADB:
		return ErrNotTrace
	}
	return err
}

// checkTables refuses tables of ours that are no plain tables: a view or a
// generated column in their place could compute for ever. What is a view of
// ours is never read from the file (ownViews).
func checkTables(db *sql.DB) error {
	var name string
	err := db.QueryRow(`SELECT name FROM pragma_table_list AS t
		WHERE schema = 'main' AND (name LIKE 'rtl#_%' ESCAPE '#' OR name IN ('rocpd_string', 'rocpd_metadata'))
		AND name NOT IN (SELECT name FROM temp.sqlite_master WHERE type = 'view')
		AND (type <> 'table' OR EXISTS (SELECT 1 FROM pragma_table_xinfo(t.name) WHERE hidden <> 0))`).Scan(&name)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: %.40q is no plain table", ErrNotTrace, name)
}
