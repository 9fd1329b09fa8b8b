package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/ps"
)

// TestWriteProcesses: each process has one line, workers below their parent, and
// text that a process has chosen cannot move the cursor or break a line.
func TestWriteProcesses(t *testing.T) {
	two := 2
	var out strings.Builder
	err := writeProcesses(&out, []ps.Process{
		{PID: 10, Workers: []int{12}, CommandLine: "server\x1b[2J\n" + strings.Repeat("x", 500), State: "ready"},
		{PID: 11, Command: "other", Container: "docker\t1", State: "blocked", Why: "it is\nstopped"},
		{PID: 12, Parent: 10, LocalRank: &two, GPUs: []int{0, 3}, Command: "worker", State: "ready"},
		{PID: 20, Parent: 21, Workers: []int{21}, Command: "left", State: "ready"}, // a cycle
		{PID: 21, Parent: 20, Workers: []int{20}, Command: "right", State: "ready"},
	})
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if err != nil || len(lines) != 6 {
		t.Fatalf("%v, %d lines:\n%s", err, len(lines), out.String())
	}
	for i, want := range []string{"PID ", "10 ", "12 ", "11 ", "20 ", "21 "} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d does not begin with %q: %q", i, want, lines[i])
		}
	}
	for i, want := range map[int]string{1: `server\x1b[2J\n`, 2: "local 2  0,3", 3: `it is\nstopped`} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d does not say %q: %q", i, want, lines[i])
		}
	}
	if strings.ContainsAny(out.String(), "\x1b\t") {
		t.Errorf("%q", out.String())
	}
}

// TestCommand: a command that does not fit loses the program's folder first.
func TestCommand(t *testing.T) {
	for line, want := range map[string]string{
		"/usr/bin/serve -n 3":                         "/usr/bin/serve -n 3",
		"/opt/a/folder/that/is/long/bin/python3 -m x": "…/python3 -m x",
		"/opt/a/folder/that/is/long/bin/frontend/one": "…/one",
		"python3 /opt/a/folder/that/is/long/main.py":  "python3 /opt/a/folder/that/is/long/main.…",
		"": "name",
	} {
		if got := command(ps.Process{Command: "name", CommandLine: line}); got != want {
			t.Errorf("%q: %q, not %q", line, got, want)
		}
	}
}

// TestWriteDiagnosis: a check that is not fine has its source, cause and fix.
func TestWriteDiagnosis(t *testing.T) {
	var out strings.Builder
	err := writeDiagnosis(&out, &preflight.Diagnosis{
		PID: 7, Command: "a\x1bb", Verdict: preflight.Fails, ExitCode: 4, Cause: "it is static",
		Checks: []preflight.CheckResult{
			{Part: "process", Name: "payload", Result: preflight.Fine, Found: "build 1", LookedAt: "the library"},
			{Part: "process", Name: "program", Result: preflight.Fails, Cause: "it is static", Fix: "another build", LookedAt: "maps"},
			{Part: "optional", Name: "filters", Result: preflight.Skipped},
		},
	})
	const want = `pid 7 (a\x1bb)
process
  ✓ payload      build 1
  ✗ program      fails
      looked at  maps
      cause      it is static
      fix        another build
optional
    filters      skipped
an attach would fail with exit code 4: it is static
`
	if err != nil || out.String() != want {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

// TestOmissions: ps names the processes that it could not read, and does not claim
// that there are none.
func TestOmissions(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	denied := &ps.Listing{Denied: 2, Unread: []ps.Unread{{PID: 7, Command: "init"}, {PID: 9, Command: "a\x1b"}}}
	for _, c := range []struct {
		l    *ps.Listing
		want string
	}{
		{&ps.Listing{Complete: true}, "rtl-attach: no process here uses ROCm\n"},
		{denied, "rtl-attach: 2 processes not listed: permission denied (see rtl-attach doctor): init (pid 7), a\\x1b (pid 9)\n" +
			"rtl-attach: no process that could be read uses ROCm\n"},
		{&ps.Listing{Silent: []int{5}, Processes: []ps.Process{{}}}, "rtl-attach: 1 process could not be read in time, or at all; the first is pid 5\n"},
	} {
		if said := saidOf(t, null, func() { newUI(false, false).omissions(c.l) }); said != c.want {
			t.Errorf("%q, want %q", said, c.want)
		}
	}
}
