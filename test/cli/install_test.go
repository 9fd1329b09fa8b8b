package cli

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// TestInstall: the tool, the C library under AMD's names, a manual's page for each command that the tool has,
// completion, documents and licences; nothing else. The pages are what a formatter takes without a warning.
func TestInstall(t *testing.T) {
	testenv.Artefact(t, "rtl-attach")
	pages := testenv.Artefact(t, "man")
	testenv.Artefact(t, "lib")
	prefix := filepath.Join(t.TempDir(), "a prefix")
	cmd := exec.Command(filepath.Join("..", "..", "scripts", "install"), prefix)
	cmd.Env = append(os.Environ(), "BUILD="+testenv.BuildDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := []string{
		"bin/rtl-attach", "share/bash-completion/completions/rtl-attach", "share/fish/vendor_completions.d/rtl-attach.fish",
		"share/man/man1/rtl-attach.1", "share/zsh/site-functions/_rtl-attach",
		"include/rtl-attach/rocattach.h", "lib/rtl-attach/librtl-rocattach.so.1",
		"lib/rtl-attach/librocprofv3-attach.so", "lib/rtl-attach/librocprofv3-attach.so.1",
		"lib/rtl-attach/librocprofiler-sdk-rocattach.so", "lib/rtl-attach/librocprofiler-sdk-rocattach.so.1",
	}
	for _, command := range commandsOf(t, filepath.Join(prefix, "bin/rtl-attach")) {
		want = append(want, "share/man/man1/rtl-attach-"+command+".1")
	}
	for _, name := range append(filesBelow(t, "../..", "docs"), "CHANGELOG.md", "LICENSE", "README.md", "THIRD-PARTY-LICENCES") {
		want = append(want, "share/doc/rtl-attach/"+name)
	}
	slices.Sort(want)
	got := filesBelow(t, prefix, ".")
	if !slices.Equal(got, want) {
		t.Errorf("installed\n%q, want\n%q", got, want)
	}
	checkPages(t, pages)
	checkSections(t, pages)
}

// filesBelow returns the files of a folder of root, by their paths from root, sorted.
func filesBelow(t *testing.T, root, folder string) (files []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

// checkSections: a page has the command's exit codes, environment, files and examples, and its
// flags in the form in which users write them.
func checkSections(t *testing.T, dir string) {
	t.Helper()
	pages, _ := filepath.Glob(filepath.Join(dir, "*.1"))
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range []string{"SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"} {
			_, body, found := bytes.Cut(text, []byte(".SH \""+section+"\"\n"))
			if body, _, _ = bytes.Cut(body, []byte("\n.SH ")); !found || len(bytes.TrimSpace(body)) == 0 {
				t.Errorf("%s: %s is missing or empty", filepath.Base(page), section)
			}
		}
		if odd := regexp.MustCompile(`\[?="?(false|true|)"?\]`).Find(text); odd != nil {
			t.Errorf("%s: %s is no way to write a flag", filepath.Base(page), odd)
		}
	}
}

// commandsOf reads the commands off the tool's own help.
func commandsOf(t *testing.T, tool string) (commands []string) {
	t.Helper()
	help, err := exec.Command(tool, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := bytes.Cut(help, []byte("Available Commands:\n"))
	list, _, _ = bytes.Cut(list, []byte("\n\n"))
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+) `).FindAllSubmatch(list, -1) {
		if name := string(m[1]); name != "help" && name != "completion" {
			commands = append(commands, name)
		}
	}
	if len(commands) == 0 {
		t.Fatalf("no commands in\n%s", help)
	}
	return commands
}

func checkPages(t *testing.T, dir string) {
	t.Helper()
	formatter, err := exec.LookPath("groff")
	if err != nil {
		testenv.Skip(t, "no groff")
	}
	pages, _ := filepath.Glob(filepath.Join(dir, "*.1"))
	for _, page := range pages {
		var warnings bytes.Buffer
		cmd := exec.Command(formatter, "-man", "-Tutf8", "-Kutf8", "-ww", page)
		cmd.Stderr = &warnings
		if err := cmd.Run(); err != nil || warnings.Len() > 0 {
			t.Errorf("%s: %v\n%s", filepath.Base(page), err, warnings.String())
		}
	}
}
