package hostile

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

// mostBytes is the memory that the tool takes at most, whatever its target does: that
// of a recording with a buffer of 1 MiB and every table full. The summary has 100 MB
// of it (decision 0015).
const mostBytes = 192 << 20

// A run is one run of the tool, looked at from all sides.
type run struct {
	*harness.Command
	home, out string    // folders: the one it runs in, the one its trace goes to
	before    time.Time // home's time of change
}

// tool starts the tool. A recording gets --json, a duration and an output.
func tool(t *testing.T, args ...string) *run {
	t.Helper()
	r := &run{home: t.TempDir(), out: t.TempDir()}
	trace := filepath.Join(r.out, "t.db")
	if args[0] == "-p" { // flags of the test's own come later, and win
		args = append([]string{"-d", "1s", "--json", "--buffer-size", "1MiB", "-o", trace}, args...)
	}
	r.Command = harness.NewCommand(t, args...)
	r.Trace = trace
	r.Cmd.Dir = r.home
	r.Cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + r.home, "TMPDIR=" + r.home, "SUDO_UID=" + os.Getenv("SUDO_UID")}
	r.before = changed(t, r.home)
	r.Start(t)
	return r
}

// attack records a process that does not want to be recorded.
func attack(t *testing.T, pid int, args ...string) *run {
	t.Helper()
	return tool(t, append([]string{"-p", strconv.Itoa(pid)}, args...)...)
}

// end waits for the tool and holds it to its promises. It returns the exit code,
// which is one of codes.
func (r *run) end(t *testing.T, codes ...int) int {
	t.Helper()
	code := r.Exit(t)
	state := r.Cmd.ProcessState
	if !slices.Contains(codes, code) {
		t.Errorf("the tool ended with %v, want one of %v\n%s", state, codes, r.Stderr.String())
	}
	most := state.SysUsage().(*syscall.Rusage).Maxrss << 10
	if most > mostBytes {
		t.Errorf("the tool took %d MiB of memory", most>>20)
	}
	r.saidHarmless(t)
	r.wroteNothingElse(t)
	t.Logf("code %d, %v, %d MiB: %s", code, r.Took.Round(time.Millisecond), most>>20, firstError(r.Stderr.String()))
	return code
}

func firstError(said string) string {
	_, after, _ := strings.Cut(said, "rtl-attach: error: ")
	line, _, _ := strings.Cut(after, "\n")
	return line[:min(len(line), 120)]
}

// saidHarmless: nothing that a terminal obeys, and no trace of a crash.
func (r *run) saidHarmless(t *testing.T) {
	t.Helper()
	for name, said := range map[string]string{"stdout": r.Stdout.String(), "stderr": r.Stderr.String()} {
		if !utf8.ValidString(said) {
			t.Errorf("%s is no UTF-8: %.200q", name, said)
		}
		for _, c := range said {
			if !unicode.IsPrint(c) && c != '\n' {
				t.Errorf("%s holds %q: %.200q", name, c, said)
				break
			}
		}
		for _, crash := range []string{"goroutine ", "panic:", "SIGSEGV", "SIGBUS", "fatal error"} {
			if strings.Contains(said, crash) {
				t.Errorf("%s holds %q:\n%.4000s", name, crash, said)
			}
		}
		for line := range strings.Lines(said) {
			if name == "stderr" && utf8.RuneCountInString(line) > 2100 {
				t.Errorf("a line of %d characters: %.100q", utf8.RuneCountInString(line), line)
			}
		}
	}
}

func (r *run) wroteNothingElse(t *testing.T) {
	t.Helper()
	if after := changed(t, r.home); !after.Equal(r.before) {
		t.Errorf("the folder it ran in has changed")
	}
	for _, name := range list(t, r.out) {
		if name != "t.db" {
			t.Errorf("left beside the trace: %s", name)
		}
	}
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func changed(t *testing.T, dir string) time.Time {
	t.Helper()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}
