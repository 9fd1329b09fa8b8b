// Package ring reads what the payload shares with the tool: the ring of
// records (reader.go, drain.go) and the control block (control.go, command.go,
// lock.go, grace.go). All of that memory is written by another process, which
// may be broken or hostile: it is copied out before it is believed, and every
// number in it is checked before it is used.
package ring

//go:generate go run ./genabi -kinds

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

var (
	// ErrMalformed: the memory is not what abi.h describes.
	ErrMalformed = errors.New("malformed")
	// ErrUnfinished: the payload has mapped its control block, and not yet filled it.
	ErrUnfinished = errors.New("not filled yet")
	// ErrVersion: the payload speaks another version of abi.h.
	ErrVersion = errors.New("ABI version mismatch")
	// ErrCorrupt: the producer broke the rules of the ring.
	ErrCorrupt = errors.New("corrupt")
)

// sealedSize returns the size of a memfd that cannot change any more: one that
// its owner could truncate would turn a read of ours into SIGBUS.
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
