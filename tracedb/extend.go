package tracedb

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

var (
	// ErrForeign means that the file is a trace, but cannot be extended.
	ErrForeign = errors.New("cannot be extended")
	// ErrOtherBoot means that the times in the file refer to another boot's clock.
	ErrOtherBoot = fmt.Errorf("%w: it was recorded before the last boot, or on another machine", ErrForeign)
	// ErrOtherLayout means that another version of the tool has created the file.
	ErrOtherLayout = fmt.Errorf("%w: its tables are another version's", ErrForeign)
)

// CheckExtend is Check for a trace that may already exist: Make then extends it. Make checks
// the contents.
func CheckExtend(path string, needBytes uint64) (Place, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return Check(path, needBytes)
	} else if err != nil {
		return Place{}, fmt.Errorf("%w: %w", ErrUnwritable, err)
	}
	if !info.Mode().IsRegular() {
		return Place{}, fmt.Errorf("%s: %w", path, ErrNotTrace)
	}
	if err := writable(path, unix.R_OK|unix.W_OK); err != nil {
		return Place{}, err
	}
	place, err := placeIn(path, needBytes)
	place.Extends = true
	if err == nil && place.Filesystem != "" {
		err = fmt.Errorf("%s: %w: it lies on %s, whose locks cannot be relied on", path, ErrForeign, place.Filesystem)
	}
	return place, err
}

// Make creates the trace at a place, or opens the existing one to extend it.
func Make(place Place) (*DB, error) {
	if place.Extends {
		return extend(place)
	}
	return Create(place)
}

// extend opens a trace of this layout for further sessions. It does not change the trace
// until a session begins, except that it rolls the trace of a killed recorder back to its
// last commit, as for a reader.
func extend(place Place) (*DB, error) {
	file, err := openOurs(place.Path)
	if err != nil {
		return nil, err
	}
	db := newDB(place, file)
	if err := db.openAgain(); err != nil {
		return nil, errors.Join(fmt.Errorf("extend trace %s: %w", place.Path, err), db.closeFiles())
	}
	return db, nil
}

// openOurs opens a file that belongs to this user and has no second name: for root,
// another user could have put any file there.
func openOurs(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrUnwritable, err)
	}
	f := os.NewFile(uintptr(fd), path)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	uid, _, sudo := userBehindSudo()
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		err = fmt.Errorf("%s: %w", path, ErrNotTrace)
	case st.Nlink != 1:
		err = fmt.Errorf("%s: %w: it has %d names", path, ErrForeign, st.Nlink)
	case int(st.Uid) != os.Geteuid() && !(sudo && int(st.Uid) == uid):
		err = fmt.Errorf("%s: %w: it is uid %d's", path, ErrForeign, st.Uid)
	}
	if err == nil {
		_, err = hasJournal(path) // SQLite will roll it back
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (db *DB) openAgain() error {
	if err := db.claim(); err != nil {
		return err
	}
	if err := db.connect(db.place.dataSource() + "&_busy_timeout=200"); err != nil {
		return readError(err) // the driver reads the file to set its defaults
	}
	if err := db.sameFile(); err != nil {
		return err
	}
	if err := db.pragmas("trusted_schema = OFF", "cell_size_check = ON"); err != nil {
		return err
	}
	if err := db.exec("BEGIN EXCLUSIVE"); err != nil {
		return readError(err)
	}
	if err := errors.Join(db.checkOurs(), db.exec("COMMIT")); err != nil {
		return err
	}
	err := db.pragmas(
		"synchronous = NORMAL", // a crash of the machine must not lose the existing sessions
		"temp_store = MEMORY",
		"cache_size = "+cacheSize,
		"journal_mode = TRUNCATE",
		fmt.Sprintf("user_version = %d", formatVersion), // this write opens the journal while the tool still has privileges
		"busy_timeout = 0",                              // write.go waits
	)
	if err != nil {
		return readError(err)
	}
	return db.prepare()
}

// checkOurs fails for a file whose layout differs from the one that Create makes. It also
// reads what further sessions continue: the devices, and the ids of the contexts.
func (db *DB) checkOurs() error {
	if err := checkVersion(db.conn); err != nil {
		return err
	}
	layout, err := layoutOf(db.conn)
	if err != nil {
		return readError(err)
	}
	own, err := ownLayout()
	if err != nil {
		return err
	}
	if !slices.Equal(layout, own) {
		return ErrOtherLayout
	}
	if err := db.checkReasons(); err != nil {
		return err
	}
	var boot string
	err = db.conn.QueryRowContext(background, "SELECT value FROM rocpd_metadata WHERE tag = ?", tagBoot).Scan(&boot)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if boot != bootID() || boot == "" {
		return ErrOtherBoot
	}
	err = db.conn.QueryRowContext(background, "SELECT coalesce(max(id), 0) FROM rtl_context").Scan(&db.lastContext)
	return errors.Join(err, db.learnDevices())
}

func (db *DB) checkReasons() error {
	var found, own []string
	err := db.each("SELECT id || ' ' || name FROM rtl_reason ORDER BY id LIMIT ?", func(r *sql.Rows) error {
		var reason string
		err := r.Scan(&reason)
		found = append(found, reason)
		return err
	}, len(Reasons)+1)
	for id, r := range Reasons {
		own = append(own, fmt.Sprint(id, " ", r.Name))
	}
	if err == nil && !slices.Equal(found, own) {
		return ErrOtherLayout
	}
	return err
}

// learnDevices reads the devices, so that each keeps its number in all sessions.
func (db *DB) learnDevices() error {
	return db.each(`SELECT DISTINCT gpu_id, coalesce(bdf, ?), coalesce(driver_node, ?) FROM rtl_agent LIMIT ?`, func(r *sql.Rows) error {
		var number int64
		var d device
		err := r.Scan(&number, &d.place, &d.driverNode)
		db.devices[d] = number
		return err
	}, nowhere, nowhere, mostDevices)
}

// layoutOf lists the objects of a database, each with its SQL.
func layoutOf(conn querier) ([]string, error) {
	rows, err := conn.QueryContext(background, "SELECT type, name, coalesce(sql, '') FROM main.sqlite_master ORDER BY type, name")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var kind, name, text string
		if err := rows.Scan(&kind, &name, &text); err != nil {
			return nil, err
		}
		all = append(all, strings.Join([]string{kind, name, withoutCalls(text)}, " "))
	}
	return all, rows.Err()
}

// ownLayout is the layout of the files that Create makes.
var ownLayout = sync.OnceValues(func() (all []string, err error) {
	err = withEmpty(func(conn *sql.Conn) (err error) {
		all, err = layoutOf(conn)
		return err
	})
	return all, err
})

// withEmpty calls do with an empty trace in memory.
func withEmpty(do func(*sql.Conn) error) error {
	db, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(background)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(background, layout()); err != nil {
		return err
	}
	return do(conn)
}

// bootID returns the kernel's id of the current boot; "" if unknown.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
