package report

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNext: each line below "Next:" is a command that a shell takes as it stands, with
// the tool's path and the trace's, whatever is in them.
func TestNext(t *testing.T) {
	for _, file := range []string{"t.db", "my trace.db", "it's; a 'trace'.db", "-f.db", "$(echo x)#.db"} {
		s := Summary{File: file, Command: filepath.Join("/opt/my tools", "rtl-attach")}
		s.Coverage.Timed = 1
		var b bytes.Buffer
		s.writeNext(&b)
		lines := strings.Split(strings.TrimSpace(strings.Replace(b.String(), "Next:", "", 1)), "\n")
		if len(lines) != 4 {
			t.Fatalf("%q", lines)
		}
		if strings.HasPrefix(file, "-") {
			file = "./" + file
		}
		for i, want := range [][]string{
			{s.Command, "report", file},
			{s.Command, "export", file, "-f", "pftrace"},
			{s.Command, "export", file, "-f", "rocprofv3"},
			{"sqlite3", file, "SELECT * FROM top"},
		} {
			out, err := exec.Command("sh", "-c", `words() { printf '%s\n' "$@"; }; words `+strings.TrimSpace(lines[i])).Output()
			if got := strings.TrimSuffix(string(out), "\n"); err != nil || got != strings.Join(want, "\n") {
				t.Errorf("%s: %v, words %q, want %q", lines[i], err, got, want)
			}
		}
	}
}
