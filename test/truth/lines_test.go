package truth

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// Frames of native code have the lines of the source: from the program itself, and of a stripped one from the file that it
// names.
func TestThreadsLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		under func(t *testing.T) []string
	}{
		{"own", func(*testing.T) []string { return nil }},
		{"debuglink", stripped},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := harness.Threads()
			w.Under = c.under(t)
			rows, _, _ := recordThreads(t, w, 20, "--sample", "cpu:499")
			compareLines(t, rows)
		})
	}
}

// stripped returns a command that starts a stripped copy of the program in its place.
func stripped(t *testing.T) []string {
	t.Helper()
	program, dir := testenv.Artefact(t, "workloads/threads"), t.TempDir()
	copied, debug := filepath.Join(dir, "threads"), filepath.Join(dir, ".debug", "threads.debug")
	if err := os.Mkdir(filepath.Dir(debug), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--only-keep-debug", program, debug},
		{"--strip-all", "--add-gnu-debuglink=" + debug, program, copied},
	} {
		if out, err := exec.Command("objcopy", args...).CombinedOutput(); err != nil {
			testenv.Skip(t, "objcopy: "+err.Error()+string(out))
		}
	}
	return []string{"/bin/sh", "-c", `shift; exec ` + copied + ` "$@"`, "sh"}
}

// compareLines finds each frame of the functions of one line in the source.
func compareLines(t *testing.T, rows harness.ThreadRows) {
	t.Helper()
	source, err := os.ReadFile("../../testdata/workloads/threads.cpp")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(source, []byte("\n"))
	compared := 0
	for _, s := range rows.Samples {
		for _, f := range s.Stack {
			name := f.Name[max(0, strings.Index(f.Name, "phase_")):]
			if !strings.HasPrefix(name, "phase_") {
				continue
			}
			compared++
			name, _, _ = strings.Cut(name, "(")
			at := slices.IndexFunc(lines, func(l []byte) bool { return bytes.Contains(l, []byte(" "+name+"(uint64_t end)")) })
			if filepath.Base(f.File) != "threads.cpp" || f.Line != int64(at+1) {
				t.Errorf("%s is at %s:%d, not on line %d", f.Name, f.File, f.Line, at+1)
			}
		}
	}
	if compared == 0 {
		t.Error("no sample of a known function")
	}
}
