package export

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

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

// MoveTo gives the file that was made its name; a file of that name is replaced.
// Standard output stays where it is.
func (r *Result) MoveTo(path string) error {
	if path == r.Path || path == Stdout {
		return nil
	}
	if err := os.Rename(r.Path, path); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	r.Path = path
	return nil
}

// IsCompressed says whether Write compresses a file of this name.
func IsCompressed(path string) bool { return strings.HasSuffix(path, ".gz") }

// outputBytes are written at a time.
const outputBytes = 1 << 18

// An output buffers what a format writes, and compresses it if it is to be.
type output struct {
	*bufio.Writer // what a format writes to
	closers       []func() error
}

func newOutput(w io.Writer, compressed bool) output {
	buffer := bufio.NewWriterSize(w, outputBytes)
	if !compressed {
		return output{buffer, []func() error{buffer.Flush}}
	}
	zip, err := gzip.NewWriterLevel(buffer, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	front := bufio.NewWriterSize(zip, outputBytes)
	return output{front, []func() error{front.Flush, zip.Close, buffer.Flush}}
}

// finish writes what is still buffered.
func (o output) finish() error {
	for _, step := range o.closers {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
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
