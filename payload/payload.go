// Package payload carries the shared library that is loaded into targets. Its
// source is C, in src; make builds it into dist.
package payload

import (
	"bytes"
	"debug/elf"
	"embed"
	"errors"
	"fmt"
)

// The folder holds .gitkeep at least, so that a fresh clone compiles.
//
//go:embed all:dist
var dist embed.FS

// ErrNotBuilt: this binary carries no payload.
var ErrNotBuilt = errors.New("payload not built (run: make payload)")

// Library returns the bytes of the payload.
func Library() ([]byte, error) {
	b, err := dist.ReadFile("dist/librtl-attach.so")
	if err != nil {
		return nil, ErrNotBuilt
	}
	return b, nil
}

// BuildID returns the GNU build id of a library: sixteen bytes of a note's
// header and name, then the id.
func BuildID(library []byte) ([]byte, error) {
	const head = 16
	f, err := elf.NewFile(bytes.NewReader(library))
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	s := f.Section(".note.gnu.build-id")
	if s == nil {
		return nil, errors.New("payload has no build id")
	}
	note, err := s.Data()
	if err != nil || len(note) <= head {
		return nil, fmt.Errorf("payload's build id: %d bytes, %w", len(note), err)
	}
	return note[head:], nil
}
