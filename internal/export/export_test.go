package export

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Of an export that is interrupted nothing is left, in whatever it is.
func TestInterrupted(t *testing.T) {
	path := sample(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, f := range Formats {
		output := filepath.Join(t.TempDir(), "out")
		_, err := f.Write(ctx, path, output)
		if _, e := os.Lstat(output); !errors.Is(err, ErrInterrupted) || !errors.Is(e, os.ErrNotExist) {
			t.Errorf("%s: %v, %v", f.Name, err, e)
		}
	}
}

// So it is in the middle of its dispatches.
func TestInterruptedInTheMiddle(t *testing.T) {
	tr, err := openTrace(t.Context(), generate(t, 10*batchRows))
	must(t, err)
	defer tr.close()
	for _, order := range []string{asRecorded, byStart, bySubmit} {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		err := tr.dispatches(ctx, order, func(*dispatch) error {
			if n++; n == batchRows {
				cancel()
			}
			return nil
		})
		if !errors.Is(err, ErrInterrupted) || n > 2*batchRows {
			t.Errorf("%q: %v after %d", order, err, n)
		}
		cancel()
	}
}

// A failing reader of the output ends the export with its error.
func TestWriteError(t *testing.T) {
	tr, err := openTrace(t.Context(), sample(t))
	must(t, err)
	defer tr.close()
	for _, f := range Formats {
		if !f.Streams() {
			continue
		}
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		must(t, err)
		defer full.Close()
		if _, err := f.stream(t.Context(), tr, full); err == nil {
			t.Errorf("%s: written to a full device", f.Name)
		}
	}
}

// FuzzTrace: a trace may have been made by anybody. patches are triples of two
// bytes of an offset, in 16ths, and the 16 bytes that are put there.
func FuzzTrace(f *testing.F) {
	good := readFile(f, sample(f))
	const step, patch = 16, 18
	f.Add([]byte{})
	for at := 0; at < len(good)/step; at += 197 {
		f.Add(append([]byte{byte(at), byte(at >> 8)}, "\x80\x00\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff"...))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, patches []byte) {
		b := append([]byte(nil), good...)
		for ; len(patches) >= patch; patches = patches[patch:] {
			at := (int(patches[0]) | int(patches[1])<<8) * step % len(b)
			copy(b[at:], patches[2:patch])
		}
		path, output := filepath.Join(dir, "t.db"), filepath.Join(dir, "out")
		must(t, os.WriteFile(path, b, 0o600))
		for _, format := range Formats {
			const patience = 10 * time.Second // some ms are usual
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			_, err := format.Write(ctx, path, output)
			if cancel(); errors.Is(err, ErrInterrupted) {
				t.Fatalf("%s takes for ever", format.Name)
			}
			if e := os.Remove(output); (err == nil) != (e == nil) {
				t.Fatalf("%s: %v, and of its output: %v", format.Name, err, e)
			}
		}
	})
}
