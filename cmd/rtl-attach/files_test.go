package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
)

// TestTraceName: the tool refuses an impossible trace name before it reads any process.
func TestTraceName(t *testing.T) {
	for template, part := range map[string]string{
		"t.db": "", preflight.DefaultOutput: "", "100%%.db": "", "%p%h%t": "",
		"": "empty", "-": "standard output", "t-%q.db": "%q is not a placeholder", "t%": "% is not a placeholder",
		"%%%": "% is not a placeholder", "t%\xff": "is not a placeholder", t.TempDir(): "is a folder", "no/such/": "is a folder",
	} {
		err := checkTraceName(template)
		if (err == nil) != (part == "") || err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %q", template, err, part)
		}
	}
}

// TestForce: exports of several processes replace all existing files, or none.
func TestForce(t *testing.T) {
	trace, outputs := ofThree(t)
	for _, output := range outputs {
		if err := os.WriteFile(output, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(outputs[2]+"-journal", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := run([]string{"export", trace, "-f", "rocprofv3", "--force"}); code != failure.Failed {
		t.Errorf("beside a journal: code %d", code)
	}
	for _, output := range outputs {
		if mine, err := os.ReadFile(output); err != nil || string(mine) != "mine" {
			t.Errorf("%s is %q, %v", output, mine, err)
		}
	}
	if err := os.Remove(outputs[2] + "-journal"); err != nil {
		t.Fatal(err)
	}
	if code := run([]string{"export", trace, "-f", "rocprofv3", "--force"}); code != failure.OK {
		t.Errorf("code %d", code)
	}
	for _, output := range outputs {
		if made, err := os.ReadFile(output); err != nil || !strings.HasPrefix(string(made), "{") {
			t.Errorf("%s is %.20q, %v", output, made, err)
		}
	}
	if made := beside(t, trace); len(made) != len(outputs) {
		t.Errorf("left: %q", made)
	}
}
