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
	"time"

	"github.com/mattn/go-sqlite3"
	"golang.org/x/sys/unix"
)

var (
	// ErrNotTrace means that the file is not a trace of this tool.
	ErrNotTrace = errors.New("not a trace of rtl-attach")
	// ErrNewerFormat means that a newer version of this tool has written the file.
	ErrNewerFormat = errors.New("this trace was written by a newer rtl-attach")
	// ErrBusy means that another program keeps the file locked.
	ErrBusy = errors.New("trace is locked by another program")
)

// readPatience is how long a reader waits for a commit of the recorder, which may itself
// wait for other readers.
const readPatience = 5 * time.Second

// Open opens a trace for reading. The file is untrusted: Open uses only its tables, not its
// views, and refuses tables that compute something when they are read.
//
// All queries see the same state: if a recorder is writing the trace, that is its last
// commit. The recorder's next commit waits until the returned database is closed.
func Open(path string) (*sql.DB, error) { return OpenFiltered(path, nil) }

// OpenFiltered is Open for a reader that gets only what the filter selects; nil: everything.
func OpenFiltered(path string, f *ReadFilter) (*sql.DB, error) {
	file, err := filepath.EvalSymlinks(path) // SQLite's journal is beside the file itself, not beside the link
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
	mode, live, err := modeOf(file)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	query := fmt.Sprintf("mode=%s&_busy_timeout=%d", mode, readPatience.Milliseconds())
	r := &reader{filter: f, mostRows: info.Size() / leastRowBytes, source: (&url.URL{Scheme: "file", Opaque: url.PathEscape(file), RawQuery: query}).String()}
	if live {
		err = r.hold()
	}
	db := sql.OpenDB(r)
	if err == nil {
		err = checkFormat(db)
	}
	if err != nil {
		if mode == "rw" {
			err = rollbackError(err)
		}
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), db.Close())
	}
	return db, nil
}

// modeOf returns the mode in which SQLite opens a trace, and whether a recorder is writing it.
func modeOf(file string) (mode string, live bool, err error) {
	if live, err = InProgress(file); err != nil || live {
		return "ro", live, err
	}
	recover, err := hasJournal(file)
	if recover {
		return "rw", false, err // SQLite has to roll back the killed recorder's last transaction first
	}
	return "ro", false, err
}

// reader makes connections to an untrusted file.
type reader struct {
	source   string
	filter   *ReadFilter // nil: none
	mostRows int64       // for which the file has room
	once     sync.Once
	lacks    bool        // the file has no table rtl_filtered
	held     driver.Conn // with a read transaction; nil: none is needed
}

// Driver returns the SQLite driver.
func (r *reader) Driver() driver.Driver { return &sqlite3.SQLiteDriver{ConnectHook: r.prepare} }

func (r *reader) prepare(c *sqlite3.SQLiteConn) error {
	if err := distrust(c); err != nil {
		return err
	}
	r.once.Do(func() { r.lacks = lacksFiltered(c) })
	lacks := r.lacks
	switch {
	case r.filter != nil:
		return r.filter.prepare(c, !lacks, r.mostRows)
	case lacks:
		_, err := c.Exec(noFiltered, nil)
		return err
	}
	return nil
}

// Connect opens a connection with the restrictions for untrusted files.
func (r *reader) Connect(context.Context) (driver.Conn, error) { return r.Driver().Open(r.source) }

// hold begins a read transaction: no commit changes the file until Close.
func (r *reader) hold() error {
	conn, err := r.Driver().Open(r.source)
	if err != nil {
		return readError(err)
	}
	r.held = conn
	_, err = conn.(*sqlite3.SQLiteConn).Exec("BEGIN; SELECT count(*) FROM sqlite_master", nil)
	return readError(err)
}

// Close ends the read transaction. sql.DB.Close calls it.
func (r *reader) Close() error {
	if r.held == nil {
		return nil
	}
	return r.held.Close()
}

// longestValue limits the memory for one value of a file, in bytes.
const longestValue = 1 << 24

func distrust(c *sqlite3.SQLiteConn) error {
	const limitLength = 0 // SQLITE_LIMIT_LENGTH
	c.SetLimit(limitLength, longestValue)
	_, err := c.Exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"+ownViews(), nil)
	return err
}

// ownViews creates this version's views as temporary views, which hide the file's.
var ownViews = sync.OnceValue(func() string {
	var b strings.Builder
	for _, statement := range strings.SplitAfter(layout(), ";\n") {
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
	if application != applicationID {
		return fmt.Errorf("%w: application id %#x", ErrNotTrace, application)
	}
	if version > formatVersion {
		return fmt.Errorf("%w (format %d; this one reads up to %d)", ErrNewerFormat, version, formatVersion)
	}
	return nil
}

// readError converts SQLite's errors to this package's errors where there is one.
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

// checkTables refuses a file in which one of the tool's tables is not a plain table: a view
// or a generated column in its place could compute for ever. The tool's views are never read
// from the file (ownViews).
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
