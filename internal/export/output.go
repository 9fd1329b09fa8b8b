package export

import (
	"errors"
	"fmt"
	"os"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// makeFile makes a new file and has it filled. When that fails the file is
// removed, if it is still the one that was made.
func makeFile(path string, fill func(*os.File) error) error {
	place, err := tracedb.Check(path, 1)
	if err != nil {
		return err
	}
	file, err := place.MakeFile()
	if err != nil {
		return err
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
		return errors.Join(err, removeMade(path, made))
	}
	return nil
}

func removeMade(path string, made os.FileInfo) error {
	there, err := os.Lstat(path)
	if err != nil || made == nil || !os.SameFile(made, there) {
		return nil // gone, or somebody else's
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the partial file: %w", err)
	}
	return nil
}
