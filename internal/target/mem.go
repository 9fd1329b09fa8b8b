package target

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

const pageBytes = 4096

// ReadAt reads the target's memory. It makes Target an io.ReaderAt.
func (t *Target) ReadAt(b []byte, off int64) (int, error) {
	if !t.spend(len(b)) {
		return 0, fmt.Errorf("pid %d: no end of what its memory refers to: %w", t.PID, ErrMalformed)
	}
	mine := t.BeginRead(Memory)
	n, err := t.mem.ReadAt(b, off)
	EndRead(mine)
	if err != nil && n < len(b) {
		return n, t.memError("read", Addr(off), len(b), err)
	}
	return n, nil
}

// Read fills b from address a.
func (t *Target) Read(a Addr, b []byte) error {
	_, err := t.ReadAt(b, int64(a))
	return err
}

// Write stores b at address a, in read-only mappings too (the descriptor
// writes like a debugger). The caller knows from Maps whose memory it is.
func (t *Target) Write(a Addr, b []byte) error {
	mine := t.BeginRead(Memory)
	n, err := t.mem.WriteAt(b, int64(a))
	EndRead(mine)
	if err != nil || n < len(b) {
		return t.memError("write", a, len(b), err)
	}
	return nil
}

// MemFD is the descriptor behind Read and Write, for raw calls in a stop.
func (t *Target) MemFD() int { return int(t.mem.Fd()) }

// Uint64 and Uint32 read one little-endian word.
func (t *Target) Uint64(a Addr) (uint64, error) {
	var b [8]byte
	err := t.Read(a, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

func (t *Target) Uint32(a Addr) (uint32, error) {
	var b [4]byte
	err := t.Read(a, b[:])
	return binary.LittleEndian.Uint32(b[:]), err
}

// cString reads a string of at most limit bytes. It may end a mapping.
func cString(r io.ReaderAt, a Addr, limit int) (string, error) {
	var s []byte
	for len(s) < limit {
		// Never across a page at once: the next one may not exist.
		n := min(pageBytes-int(a%pageBytes), limit-len(s))
		chunk := make([]byte, n)
		if _, err := r.ReadAt(chunk, int64(a)); err != nil {
			return "", err
		}
		for i, c := range chunk {
			if c == 0 {
				return string(append(s, chunk[:i]...)), nil
			}
		}
		s = append(s, chunk...)
		a += Addr(n)
	}
	return "", fmt.Errorf("string at %#x is longer than %d bytes: %w", a, limit, ErrMalformed)
}

func (t *Target) memError(op string, a Addr, n int, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		// 0 bytes: the address space has been left.
		if same := t.CheckIdentity(); same != nil {
			return same
		}
	}
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s %d bytes at %#x in pid %d: %w", op, n, a, t.PID, err)
}
