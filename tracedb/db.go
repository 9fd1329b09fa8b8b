package tracedb

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"time"
)

//go:embed schema.sql
var schema string

//go:embed views.sql
var viewSchema string

const (
	applicationID = 0x52544c41 // "RTLA"
	formatVersion = 2

	// commitEvery limits how much a killed recorder loses.
	commitEvery = 500 * time.Millisecond

	// patience is how long other programs may keep the file locked.
	patience = time.Minute

	cacheSize = "-65536" // KiB: a transaction's pages are not spilled

	tagBoot = "boot_id" // in rocpd_metadata: the boot to whose clock the times refer
)

// background is the context of all SQL: no statement is cancelled.
var background = context.Background()

// DB is a trace file open for writing.
//
// It uses SQLite's rollback journal, not WAL: appended pages need no journal, so it
// writes every page once where WAL writes it twice, and it leaves no second file at the
// end. Other processes may read the file meanwhile: they see the last commit, and the next
// commit waits for them in memory (write.go). SQLite does not sync (data written to the
// kernel survives the recorder's death, but not the machine's); Close does, once.
type DB struct {
	mu       sync.Mutex
	place    Place
	file     *os.File // kept open from creation to sync, to check that it is the same file
	pool     *sql.DB
	conn     *sql.Conn
	now      func() time.Time
	patience time.Duration // how long to wait for other programs that have locked the file
	reserved bool          // a transaction is open
	begun    time.Time     // time of its first change; zero: none
	due      bool          // another writer waits for its commit
	held     int           // records in it
	retryAt  time.Time     // next attempt of a commit that readers block
	failure  error         // the first error of a write: the file stays as it was before
	closed   bool
	sessions []*Session // in progress

	strings     map[string]int64 // up to mostStrings of the file's
	forgot      bool             // the file has more
	kernels     map[string]int64 // readable names by symbol
	readable    ReadableNames
	lastContext int64 // the last id assigned: no other process writes the file
	contexts    *bulk
	executions  *bulk
	filtered    *bulk
	untimed     *bulk
	tables      map[*Table]*bulk // tables of the kinds of record
	devices     devices
}

// Create creates the trace file at a place that Check has accepted.
func Create(place Place) (*DB, error) {
	file, err := place.MakeFile()
	if err != nil {
		return nil, err
	}
	db := newDB(place, file)
	if err := db.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("create trace %s: %w", place.Path, err), db.closeFiles(), os.Remove(place.Path), removeJournal(place))
	}
	return db, nil
}

// removeJournal removes the journal of a failed creation.
func removeJournal(place Place) error {
	if err := os.Remove(place.Path + "-journal"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func newDB(place Place, file *os.File) *DB {
	return &DB{place: place, file: file, now: time.Now, patience: patience, strings: map[string]int64{}, kernels: map[string]int64{}, tables: map[*Table]*bulk{}, devices: devices{}}
}

func (db *DB) open() error {
	if err := db.connect(db.place.dataSource() + fmt.Sprintf("&_busy_timeout=%d", readPatience.Milliseconds())); err != nil {
		return err
	}
	if err := db.claim(); err != nil {
		return err
	}
	err := db.pragmas(
		"locking_mode = "+db.place.lockingMode(),
		"journal_mode = TRUNCATE",
		"synchronous = OFF",
		"temp_store = MEMORY",
		"page_size = 16384", // bytes: appending takes three quarters of the time that it takes with 4096
		"cache_size = "+cacheSize,
	)
	if err != nil {
		return err
	}
	if err := db.sameFile(); err != nil {
		return err
	}
	if err := db.layOut(); err != nil {
		return readError(err)
	}
	return db.pragmas("busy_timeout = 0") // write.go waits
}

// connect makes one connection: transactions and prepared statements belong to it.
func (db *DB) connect(source string) (err error) {
	if db.pool, err = sql.Open("sqlite3", source); err != nil {
		return err
	}
	db.conn, err = db.pool.Conn(background)
	return err
}

func (db *DB) pragmas(all ...string) error {
	for _, pragma := range all {
		if err := db.exec("PRAGMA " + pragma); err != nil {
			return fmt.Errorf("%s: %w", pragma, err)
		}
	}
	return nil
}

// layOut creates all tables in one transaction: a recorder that is killed here leaves an
// empty file, not a part of a trace.
func (db *DB) layOut() error {
	for _, sql := range []string{
		"BEGIN",
		layout(),
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		fmt.Sprintf("PRAGMA user_version = %d", formatVersion),
	} {
		if err := db.exec(sql); err != nil {
			return fmt.Errorf("schema: %w", err)
		}
	}
	if err := db.prepare(); err != nil {
		return err
	}
	return errors.Join(db.constants(), db.exec("COMMIT"))
}

// dataSource returns the file's URI for SQLite. On a network filesystem locks may hang or
// be missing; the recorder has created the file, so it needs none there.
func (p Place) dataSource() string {
	query := "mode=rw&vfs=rtl-writer"
	if p.Filesystem != "" {
		query = "mode=rw&vfs=unix-none"
	}
	return (&url.URL{Scheme: "file", Opaque: url.PathEscape(p.Path), RawQuery: query}).String()
}

// lockingMode returns SQLite's locking mode. Without locks no other process may read
// meanwhile, and the journal stays open.
func (p Place) lockingMode() string {
	if p.Filesystem != "" {
		return "EXCLUSIVE"
	}
	return "NORMAL"
}

// sameFile fails if another file, or a link to one, has replaced the created file: under
// sudo, the directory often belongs to the unprivileged user.
func (db *DB) sameFile() error {
	ours, err := db.file.Stat()
	if err != nil {
		return err
	}
	there, err := os.Lstat(db.place.Path)
	if err != nil {
		return err
	}
	if !os.SameFile(ours, there) {
		return fmt.Errorf("%s was replaced while it was being created", db.place.Path)
	}
	return nil
}

func (db *DB) prepare() error {
	var err error
	db.contexts, err = newBulk(db.conn, "rtl_context", "id", "queue_id", "launch_id", "thread_id", "flags")
	if err != nil {
		return err
	}
	db.executions, err = newBulk(db.conn, "rtl_execution",
		"context_id", "packet_index", "start_ns", "duration_ns", "queued_ns")
	if err != nil {
		return err
	}
	db.filtered, err = newBulk(db.conn, "rtl_filtered",
		"queue_id", "packet_index", "packets_after", "start_ns", "duration_ns", "queued_ns", "kernels")
	if err != nil {
		return err
	}
	db.untimed, err = newBulk(db.conn, "rtl_untimed", "queue_id", "launch_id", "thread_id",
		"reason_id", "packet_index", "packets", "submit_ns")
	return err
}

// constants writes the rows that every trace contains.
func (db *DB) constants() error {
	for _, s := range []string{"", "KernelExecution", "KernelSubmit"} {
		if _, err := db.intern(s); err != nil {
			return err
		}
	}
	for id, reason := range Reasons {
		if err := db.exec("INSERT INTO rtl_reason VALUES(?, ?, ?)", id, reason.Name, reason.Text); err != nil {
			return err
		}
	}
	return errors.Join(db.metadata("schema_version", "2"), db.metadata("clock", "CLOCK_BOOTTIME"), db.metadata(tagBoot, bootID()))
}

func (db *DB) metadata(tag, value string) error {
	return db.exec("INSERT INTO rocpd_metadata(tag, value) VALUES(?, ?)", tag, value)
}

// mostStrings limits the strings in memory: an application may give each of its markers
// another name.
var mostStrings = 1 << 18

// intern returns the id of a string in rocpd_string, and inserts it if it is new.
func (db *DB) intern(s string) (int64, error) {
	if id, ok := db.strings[s]; ok {
		return id, nil
	}
	id, err := db.stringID(s)
	if err != nil {
		return 0, err
	}
	if len(db.strings) == mostStrings {
		clear(db.strings)
		db.forgot = true
	}
	db.strings[s] = id
	return id, nil
}

// stringID looks the string up first in a file that has strings which are not in memory.
func (db *DB) stringID(s string) (id int64, err error) {
	if db.place.Extends || db.forgot {
		err = db.conn.QueryRowContext(background, "SELECT id FROM rocpd_string WHERE string = ?", s).Scan(&id)
		if !errors.Is(err, sql.ErrNoRows) {
			return id, err
		}
	}
	return db.insert("INSERT INTO rocpd_string(string) VALUES(?)", s)
}

// Flush commits the open transaction if it is older than half a second, or if another
// writer waits for it. Sessions also call it when they have nothing to write.
func (db *DB) Flush() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if !db.isDue() {
		return db.failure
	}
	return db.commitAndReserve()
}

// SizeBytes returns the current size of the file.
func (db *DB) SizeBytes() uint64 {
	info, err := db.file.Stat()
	if err != nil {
		return 0
	}
	return uint64(info.Size())
}

// Close commits and syncs everything and removes the journal. After a failed write it keeps
// the earlier commits and returns that failure.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.close(); err != nil {
		return err
	}
	return db.replace()
}

func (db *DB) close() error {
	err := db.commitWaiting()
	if db.reserved {
		err = errors.Join(err, db.exec("COMMIT")) // it is empty
	}
	// DELETE removes the journal, which was truncated after each commit.
	_, modeErr := db.conn.ExecContext(background, "PRAGMA journal_mode = DELETE")
	if err == nil {
		err = modeErr
	}
	db.failure, db.closed = errors.New("trace file is closed"), true
	return errors.Join(err, db.file.Sync(), db.closeFiles())
}

// Discard closes a file in which no session has begun. It removes a file that Create has
// created, and leaves an extended one unchanged.
func (db *DB) Discard() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	err := db.close()
	if db.place.Extends {
		return err
	}
	return errors.Join(err, os.Remove(db.place.Path))
}

func (db *DB) closeFiles() error {
	// SQLite keeps a connection, and its lock, for as long as it has statements.
	errs := []error{db.contexts.close(), db.executions.close(), db.filtered.close(), db.untimed.close()}
	for _, b := range db.kindBulks() {
		errs = append(errs, b.close())
	}
	if db.conn != nil {
		errs = append(errs, db.conn.Close())
	}
	if db.pool != nil {
		errs = append(errs, db.pool.Close())
	}
	return errors.Join(append(errs, db.file.Close())...)
}

// preparer is a connection.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// querier is a connection, or a pool of them.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}
