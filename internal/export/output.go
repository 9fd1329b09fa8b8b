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

// CheckOutput checks whether Write can create a file at this path. It creates nothing.
func CheckOutput(path string) error {
	if path == Stdout {
		return nil
	}
	_, err := tracedb.Check(path, 1)
	return err
}

// MoveTo renames the file that was written, and replaces a file of that name. It does nothing
// for standard output.
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

// IsCompressed reports whether Write compresses a file of this name.
func IsCompressed(path string) bool { return strings.HasSuffix(path, ".gz") }

// outputBytes is the size of a write.
const outputBytes = 1 << 18

// output buffers the output of a format, and compresses it if requested.
type output struct {
	*bufio.Writer // a format writes to it
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

// makeFile creates a file and fills it. On an error it removes the file, if the path still
// refers to the same file.
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

// Remove removes the file, if the path still refers to the same file.
func (r *Result) Remove() error { return removeMade(r.Path, r.made) }

func removeMade(path string, made os.FileInfo) error {
	there, err := os.Lstat(path)
	if err != nil || made == nil || !os.SameFile(made, there) {
		return nil // removed, or another file
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove what was made: %w", err)
	}
	return nil
}
