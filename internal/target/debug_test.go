package target

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// separate makes a stripped copy of a program with a debug link, and the file that this names.
func separate(t *testing.T, debugArgs ...string) (stripped, debug string) {
	t.Helper()
	if _, err := exec.LookPath("objcopy"); err != nil {
		testenv.Skip(t, "needs objcopy")
	}
	program, dir := testenv.Artefact(t, "workloads/threads"), t.TempDir()
	stripped, debug = filepath.Join(dir, "threads"), filepath.Join(dir, "threads.debug")
	for _, args := range [][]string{
		append([]string{"--only-keep-debug", program, debug}, debugArgs...),
		{"--strip-all", "--remove-section=.note.gnu.build-id", "--add-gnu-debuglink=" + debug, program, stripped},
	} {
		if out, err := exec.Command("objcopy", args...).CombinedOutput(); err != nil {
			t.Fatalf("objcopy %q: %v\n%s", args, err, out)
		}
	}
	return stripped, debug
}

func openFile(t *testing.T, path string) *File {
	t.Helper()
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	f, err := ReadFile(r)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A debug link is taken only if the checksum of its file is right, and a compressed section is read as it was.
func TestDebugLink(t *testing.T) {
	stripped, debug := separate(t, "--compress-debug-sections=zlib")
	f, d := openFile(t, stripped), openFile(t, debug)
	if name, _ := f.DebugLink(); name != "threads.debug" || !d.IsDebugOf(f) || f.IsDebugOf(f) {
		t.Errorf("%q, %v, %v", name, d.IsDebugOf(f), f.IsDebugOf(f))
	}
	want, err := io.ReadAll(openFile(t, testenv.Artefact(t, "workloads/threads")).Section(".debug_line"))
	if err != nil || len(want) == 0 {
		t.Fatal(len(want), err)
	}
	got, err := io.ReadAll(d.Section(".debug_line"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d: %v", len(got), len(want), err)
	}
	if f.Section(".debug_line") != nil || d.Section(".text") != nil { // NOBITS
		t.Error("sections that are not there")
	}
	b, err := os.ReadFile(debug)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if other, err := ReadFile(bytes.NewReader(b)); err == nil && other.IsDebugOf(f) {
		t.Error("another file is taken for the one with the debug information")
	}
}
