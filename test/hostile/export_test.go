package hostile

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/export"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// forged makes of a trace's names what no recorder of ours writes: as the target has
// put them, and one of 1 MB.
const forged = `UPDATE rocpd_string SET string = char(27) || '[2J' || char(155, 8238, 8232, 127, 13, 10) || id || CAST(x'fffe80' AS TEXT)
	WHERE id IN (SELECT name_id FROM rtl_launch UNION SELECT symbol_id FROM rtl_launch UNION SELECT name_id FROM rtl_agent);
UPDATE rocpd_string SET string = replace(hex(zeroblob(1000000)), '00', char(27)) WHERE id = (SELECT max(name_id) FROM rtl_launch);
UPDATE rtl_thread SET name = char(27) || ']0;title' || char(7); UPDATE rtl_session SET command = char(27) || 'c', host = char(27) || 'c'`

// TestExportNames: no format holds a name that a terminal would obey, neither of a
// trace that the tool has made of a hostile target, nor of one that somebody else made.
func TestExportNames(t *testing.T) {
	v := victim.Start(t, "hostile", "names")
	r := attack(t, v.PID)
	r.end(t, 0)
	exportAll(t, r.Trace)
	if out, err := exec.Command("sqlite3", r.Trace, forged).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	exportAll(t, r.Trace)
}

func exportAll(t *testing.T, trace string) {
	t.Helper()
	for _, f := range export.Formats {
		path := filepath.Join(t.TempDir(), "out")
		r := tool(t, "export", trace, "-f", f.Name, "-o", path)
		code := 0
		if strings.HasPrefix(f.Name, "csv-") {
			code = 7 // it has no such records
		}
		r.end(t, code)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		checkExport(t, f.Name, path, data)
	}
}

// checkExport: what people look at as text is harmless as a whole; of the others,
// what is text in them.
func checkExport(t *testing.T, format, path string, data []byte) {
	t.Helper()
	switch format {
	case "pftrace", "pprof":
		for _, words := range []string{"\x1b[2J", "\x1b]0;", "\x1bc", "\u202e", "\u2028", "\u009b", "\xff\xfe\x80", "\x1b\x1b\x1b\x1b"} {
			if bytes.Contains(data, []byte(words)) {
				t.Errorf("%s holds %q", format, words)
			}
		}
		return
	case "rpd":
		out, err := exec.Command("sqlite3", path, "SELECT * FROM rocpd_string; SELECT * FROM rocpd_metadata; SELECT * FROM top").Output()
		if err != nil {
			t.Fatal(err)
		}
		data = out
	}
	if (format == "chrome" || format == "rocprofv3") && !json.Valid(data) {
		t.Errorf("%s is no JSON", format)
	}
	text := &run{Command: &harness.Command{}}
	text.Stdout.Write(data)
	text.saidHarmless(t)
}
