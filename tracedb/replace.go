package tracedb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

var (
	// ErrNotReplaceable is the error for a path that is not a regular file.
	ErrNotReplaceable = errors.New("only a regular file can be replaced")
	// ErrInUse is the error for a trace with a journal: a recorder writes it, or was
	// killed while it did.
	ErrInUse = errors.New("it has a journal")
)

// Beside returns a path for the new version of the file at path, in the same folder, with
// the same suffix. If there is no file at path, Beside returns path.
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

// CheckReplace is Check for a trace that replaces the file at path when it is complete.
// It creates nothing.
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

// Path returns the path of the trace: its final name once it is complete.
func (db *DB) Path() string {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.place.Path
}

// replace moves a complete trace over the file that it replaces.
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
