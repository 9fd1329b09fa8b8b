package tracedb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

var (
	// ErrNotReplaceable: what is there is no regular file.
	ErrNotReplaceable = errors.New("only a regular file can be replaced")
	// ErrInUse: a recorder writes the file, or was killed while it did.
	ErrInUse = errors.New("it has a journal")
)

// Beside returns the path at which a file is made that is to replace the one at path: in
// the same folder, with the same suffix. Where there is none to be replaced, it is path.
func Beside(path string) (string, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return path, nil
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrUnwritable, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s: %w", path, ErrNotReplaceable)
	}
	// SQLite would roll the older file's journal back into the new one.
	if _, err := os.Lstat(path + "-journal"); err == nil {
		return "", fmt.Errorf("%s: %w", path, ErrInUse)
	}
	dir, name := filepath.Split(path)
	return fmt.Sprintf("%s.new-%d-%s", dir, os.Getpid(), name), nil
}

// CheckReplace is Check for a trace that gets the name path when it is complete, and
// then replaces the file of that name. Nothing is created.
func CheckReplace(path string, needBytes uint64) (Place, error) {
	beside, err := Beside(path)
	if err != nil {
		return Place{}, err
	}
	place, err := Check(beside, needBytes)
	if beside != path {
		place.Replaces = path
	}
	return place, err
}

// Path is where the trace is: under its name as soon as it is complete.
func (db *DB) Path() string {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.place.Path
}

// replace gives a complete trace the name of the file that it replaces.
func (db *DB) replace() error {
	if db.place.Replaces == "" {
		return nil
	}
	if err := os.Rename(db.place.Path, db.place.Replaces); err != nil {
		return fmt.Errorf("replace %s: %w", db.place.Replaces, err)
	}
	db.place.Path, db.place.Replaces = db.place.Replaces, ""
	return nil
}
