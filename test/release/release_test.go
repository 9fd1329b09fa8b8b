// Package release looks at the files of a release (make dist) as a user has
// them: unpacked and installed in other root file systems, and attaching from
// there to programs on the simulated GPU.
//
// `make test-dist` makes the roots and runs all of it. A root that is not there
// leaves out its cases, by name.
package release

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// unpack unpacks the tar.gz and returns the folder in it.
func unpack(t *testing.T) string {
	t.Helper()
	archive := one(t, "rtl-attach-*-linux-amd64.tar.gz")
	dir := t.TempDir()
	run(t, "tar", "-xzf", archive, "-C", dir)
	return filepath.Join(dir, strings.TrimSuffix(filepath.Base(archive), ".tar.gz"))
}

// one returns the file of the release that fits a pattern.
func one(t *testing.T, pattern string) string {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(testenv.Artefact(t, "dist"), pattern))
	if len(files) != 1 {
		t.Fatalf("%s: %q in the release, expected one file", pattern, files)
	}
	return files[0]
}

// run runs a command that has to succeed, and returns what it prints.
func run(t *testing.T, line ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", line, err, out, stderr.String())
	}
	return string(out)
}

// version is the one that the sources are.
func version(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// TestChecksums: SHA256SUMS names every other file of the release, and fits.
func TestChecksums(t *testing.T) {
	dir := testenv.Artefact(t, "dist")
	run(t, "env", "-C", dir, "sha256sum", "--check", "--strict", "SHA256SUMS")
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() != "SHA256SUMS" && !bytes.Contains(sums, []byte("  "+f.Name()+"\n")) {
			t.Errorf("%s has no checksum", f.Name())
		}
	}
	if len(files) != 4 {
		t.Errorf("%d files in the release, expected 4", len(files))
	}
}

// TestStatic: the binary needs no loader and no library, and holds no symbols.
func TestStatic(t *testing.T) {
	f, err := elf.Open(filepath.Join(unpack(t), "bin", "rtl-attach"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it has a segment %v", p.Type)
		}
	}
	for _, s := range f.Sections {
		if s.Name == ".symtab" || strings.HasPrefix(s.Name, ".debug_") {
			t.Errorf("it has a section %s", s.Name)
		}
	}
}

// TestOwners: every file of both archives is root's, and none has setuid bits.
func TestOwners(t *testing.T) {
	deb := one(t, "*.deb")
	lists := run(t, "tar", "--numeric-owner", "-tvzf", one(t, "*.tar.gz")) + strings.ReplaceAll(run(t, "dpkg-deb", "-c", deb), "root/root", "0/0")
	for line := range strings.Lines(lists) {
		words := strings.Fields(line)
		if words[1] != "0/0" || strings.ContainsAny(words[0], "sStT") {
			t.Errorf("%s", line)
		}
	}
}

// TestBill: the bill of materials names each module of the binary with its
// version, SQLite and glibc; and each module's licence is in the archive.
func TestBill(t *testing.T) {
	tree := unpack(t)
	info, err := buildinfo.ReadFile(filepath.Join(tree, "bin", "rtl-attach"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(one(t, "*.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat  string
		Metadata   struct{ Component struct{ Version string } }
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	if bill.BOMFormat != "CycloneDX" || bill.Metadata.Component.Version != "v"+version(t) {
		t.Errorf("%s of version %s", bill.BOMFormat, bill.Metadata.Component.Version)
	}
	versions := map[string]string{}
	for _, c := range bill.Components {
		versions[c.Name] = c.Version
	}
	licences, err := os.ReadFile(filepath.Join(tree, "share/doc/rtl-attach/THIRD-PARTY-LICENCES"))
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range info.Deps {
		if versions[module.Path] != module.Version {
			t.Errorf("%s is of version %q, the binary has %s", module.Path, versions[module.Path], module.Version)
		}
		if !bytes.Contains(licences, []byte("=== "+module.Path+" "+module.Version+"\n")) {
			t.Errorf("%s: no licence", module.Path)
		}
	}
	for _, library := range []string{"sqlite", "glibc", "std"} {
		if versions[library] == "" {
			t.Errorf("no %s", library)
		}
	}
}

// filesBelow returns the paths below a folder, sorted, but for those under skip.
func filesBelow(t *testing.T, root, skip string) (files []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, _ fs.DirEntry, err error) error {
		if path == skip {
			return fs.SkipDir
		}
		files = append(files, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files
}
