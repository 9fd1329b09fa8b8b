package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rtl-attach/rtl-attach/internal/guide"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// TestGuide runs the commands of the pages of docs/guide, in the order in which
// they stand, and compares what they print with what the pages show. A page is a
// script: comments <!-- test … --> have lines for it (TestScripts), and before a
// block that cannot be run here a comment says why: <!-- not run: REASON -->.
func TestGuide(t *testing.T) {
	testenv.Artefact(t, "rtl-attach")
	pages, err := guide.ReadAll(filepath.Join("..", "..", "docs", "guide"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run, reasons := 0, map[string]int{}
	for _, p := range pages {
		script := scriptOf(p, &run, reasons)
		if script == "" {
			continue
		}
		name := strings.TrimSuffix(p.Name, ".md") + ".txt"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		t.Logf("not run: %d blocks: %s", reasons[reason], reason)
	}
	t.Logf("run: %d blocks of %d pages", run, len(pages))
	params := scriptParams(dir)
	params.Cmds["shell"] = shell
	params.Setup = func(env *testscript.Env) error { return errors.Join(setup(env), rootOfOurs(env)) }
	testscript.RunT(sideBySide{t}, params)
}

// scriptOf returns a page's script; "": the page has nothing to run.
func scriptOf(p *guide.Page, run *int, reasons map[string]int) string {
	var script, files strings.Builder
	for _, b := range p.Blocks {
		switch {
		case b.Language == guide.Test:
			fmt.Fprintf(&script, "# %s, line %d\n%s", p.Name, b.Line, b.Text)
		case b.Runs() && b.NotRun != "":
			reasons[b.NotRun]++
		case b.Runs():
			*run++
			fmt.Fprintf(&script, "# %s, line %d\nshell %s %d %d line-%d\n", p.Name, b.Line, b.Language, b.Line, b.ExitCode, b.Line)
			fmt.Fprintf(&files, "-- line-%d --\n%s", b.Line, b.Text)
		}
	}
	if files.Len() == 0 {
		return ""
	}
	return script.String() + files.String()
}

// rootOfOurs lets the pages' sudo be none, where the tests are root's anyway.
func rootOfOurs(env *testscript.Env) error {
	dir := filepath.Join(env.WorkDir, ".bin")
	env.Setenv("PATH", dir+":"+env.Getenv("PATH"))
	env.Setenv("RTL_ATTACH_MEASURE_COST", "200ms") // the default, which the pages' output shows
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "sudo"), []byte("#!/bin/sh\nexec \"$@\"\n"), 0o700)
}

// shell LANGUAGE LINE CODE FILE runs the commands of a block: all but the last
// one must end with 0, that one with CODE.
func shell(ts *testscript.TestScript, _ bool, args []string) {
	line, err := strconv.Atoi(args[1])
	ts.Check(err)
	want, err := strconv.Atoi(args[2])
	ts.Check(err)
	commands, err := guide.Block{Language: args[0], Line: line, Text: ts.ReadFile(args[3])}.Commands()
	ts.Check(err)
	for i, c := range commands {
		code := 0
		var exit *exec.ExitError
		if err := ts.Exec("sh", "-c", c.Line); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else {
			ts.Check(err)
		}
		if last := i == len(commands)-1; last && code != want || !last && code != 0 {
			ts.Fatalf("%q ended with %d", c.Line, code)
		}
		compareWords(ts, c)
	}
}

// compareWords finds each line of the page in one of the streams, in their order.
func compareWords(ts *testscript.TestScript, c guide.Command) {
	streams := [2][]string{strings.Split(ts.ReadFile("stdout"), "\n"), strings.Split(ts.ReadFile("stderr"), "\n")}
	for _, shown := range c.Words {
		if strings.TrimSpace(shown) == "…" {
			continue
		}
		found := false
		for i := range streams {
			at := slices.IndexFunc(streams[i], func(printed string) bool { return guide.Matches(shown, printed) })
			if at >= 0 {
				streams[i], found = streams[i][at+1:], true
				break
			}
		}
		if !found {
			ts.Fatalf("%q does not print, or not in this place:\n%s", c.Line, shown)
		}
	}
}
