package harness

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// FullPipe returns the writing end of a full pipe.
func FullPipe(t testing.TB) *os.File {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), out.Close() })
	const page = 4096
	if _, err = unix.FcntlInt(in.Fd(), unix.F_SETPIPE_SZ, page); err == nil {
		_, err = in.Write(make([]byte, page))
	}
	if err != nil {
		t.Fatal(err)
	}
	return in
}
