// Package ring reads the memory that the payload shares with the tool: the ring of records
// (reader.go, drain.go) and the control block (control.go, command.go, lock.go, grace.go).
// Another process writes this memory, and may be broken or hostile: the package copies values
// out, and checks every number before it uses it.
package ring

//go:generate go run ./genabi -kinds

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

var (
	// ErrMalformed means that the memory does not have the layout of abi.h.
	ErrMalformed = errors.New("malformed")
	// ErrUnfinished means that the payload has mapped its control block, but not yet filled it.
	ErrUnfinished = errors.New("not filled yet")
	// ErrVersion means that the payload has another version of abi.h.
	ErrVersion = errors.New("ABI version mismatch")
	// ErrCorrupt means that the producer broke the rules of the ring.
	ErrCorrupt = errors.New("corrupt")
)

// sealedSize returns the size of a memfd that is sealed against changes of its size: if its owner
// could truncate it, a read of the mapping would raise SIGBUS.
func sealedSize(f *os.File) (int64, error) {
	seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err != nil {
		return 0, fmt.Errorf("seals of %s: %w", f.Name(), err)
	}
	const wanted = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	if seals&wanted != wanted {
		return 0, fmt.Errorf("%w: %s is not sealed against resizing (seals %#x)", ErrMalformed, f.Name(), seals)
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
