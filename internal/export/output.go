package export

import (
	"errors"
	"fmt"
	"os"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// CheckOutput says whether Write can make a file at this path. Nothing is created.
func CheckOutput(path string) error {
	if path == Stdout {
		return nil
	}
	_, err := tracedb.Check(path, 1)
	return err
}

// makeFile makes a new file and has it filled. When that fails the file is
// removed, if it is still the one that was made.
func makeFile(path string, fill func(*os.File) error) (os.FileInfo, error) {
	place, err := tracedb.Check(path, 1)
	if err != nil {
		return nil, err
	}
	file, err := place.MakeFile()
	if err != nil {
		return nil, err
	}
	made, err := file.Stat()
	if err == nil {
		err = fill(file)
	}
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err != nil {
		return nil, errors.Join(err, removeMade(path, made))
	}
	return made, nil
}

// Remove takes the file away again, if it is still the one that was made.
func (r *Result) Remove() error { return removeMade(r.Path, r.made) }

func removeMade(path string, made os.FileInfo) error {
	there, err := os.Lstat(path)
	if err != nil || made == nil || !os.SameFile(made, there) {
		return nil // gone, or somebody else's
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove what was made: %w", err)
	}
	return nil
}
