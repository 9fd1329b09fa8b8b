package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/failure"
)

// saidOf calls fn with standard output going to out, and returns what fn writes to
// standard error.
func saidOf(t *testing.T, out *os.File, fn func()) string {
	t.Helper()
	talk, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer talk.Close()
	stdout, stderr := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	os.Stdout, os.Stderr = out, talk
	fn()
	text, err := os.ReadFile(talk.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFullOutput: a failed write to standard output is an error with cause, fix and
// target state, and keeps an exit code that is more specific.
func TestFullOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	trace, outputs := ofThree(t)
	const none = "4194304"
	for _, c := range []struct {
		args []string
		code failure.ExitCode
	}{
		{[]string{"ps", "--json"}, failure.Failed},
		{[]string{"doctor", none, "-o", trace + ".new"}, failure.NotPermitted},
		{[]string{"doctor", none, "-o", trace + ".new", "--json"}, failure.NotPermitted},
		{[]string{"status", fmt.Sprint(os.Getpid())}, failure.Failed},
		{[]string{"status", fmt.Sprint(os.Getpid()), "--json"}, failure.Failed},
		{[]string{"report", trace}, failure.Failed},
		{[]string{"export", trace, "-f", "rocprofv3"}, failure.Failed},
	} {
		var code failure.ExitCode
		said := saidOf(t, full, func() { code = run(c.args) })
		for _, part := range []string{"error: cannot ", "  cause   there is no room where the output goes\n", "  fix     ", "  target  "} {
			if code != c.code || !strings.Contains(said, part) {
				t.Errorf("%v: code %d, not %d; or no %q in\n%s", c.args, code, c.code, part, said)
			}
		}
	}
	if made := beside(t, trace); len(made) != len(outputs) {
		t.Errorf("exported: %q", made)
	}
}
