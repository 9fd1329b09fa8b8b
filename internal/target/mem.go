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
		return 0, fmt.Errorf("pid %d: its data structures refer to more than %d pages: %w", t.PID, readsMax, ErrMalformed)
	}
	return t.readAt(b, Addr(off))
}

func (t *Target) readAt(b []byte, a Addr) (int, error) {
	wait := t.BeginRead(Memory)
	n, err := t.mem.ReadAt(b, int64(a))
	EndRead(wait)
	if err != nil && n < len(b) {
		return n, t.memError("read", a, len(b), err)
	}
	return n, nil
}

// Read fills b from address a.
func (t *Target) Read(a Addr, b []byte) error {
	_, err := t.ReadAt(b, int64(a))
	return err
}

// Sample is Read for callers that read as long as a recording lasts: they limit each look themselves, and it does not
// count against the limit of the session.
func (t *Target) Sample(a Addr, b []byte) error {
	_, err := t.readAt(b, a)
	return err
}

// Write stores b at address a, also in read-only mappings (the descriptor writes like a
// debugger). The caller must have checked with Maps what is mapped there.
func (t *Target) Write(a Addr, b []byte) error {
	wait := t.BeginRead(Memory)
	n, err := t.mem.WriteAt(b, int64(a))
	EndRead(wait)
	if err != nil || n < len(b) {
		return t.memError("write", a, len(b), err)
	}
	return nil
}

// MemFD returns the descriptor of Read and Write, for raw calls while a thread is
// stopped.
func (t *Target) MemFD() int { return int(t.mem.Fd()) }

// Uint64 reads a 64-bit little-endian word.
func (t *Target) Uint64(a Addr) (uint64, error) {
	var b [8]byte
	err := t.Read(a, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// Uint32 reads a 32-bit little-endian word.
func (t *Target) Uint32(a Addr) (uint32, error) {
	var b [4]byte
	err := t.Read(a, b[:])
	return binary.LittleEndian.Uint32(b[:]), err
}

// cString reads a NUL-terminated string of at most limit bytes, which may lie at the
// very end of a mapping.
func cString(r io.ReaderAt, a Addr, limit int) (string, error) {
	var s []byte
	for len(s) < limit {
		// No read crosses a page boundary: the next page may not be mapped.
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
		// 0 bytes: no process uses the address space any more.
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
