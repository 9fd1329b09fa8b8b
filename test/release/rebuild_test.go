package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// copySources copies what git keeps into a folder without git.
func copySources(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "sh", "-c", `cd ../.. && git ls-files -z | tar --null -T - -cf - | tar -xf - -C "$0"`, dir)
	return dir
}

// TestWithoutGit: sources without git have their version, and no commit.
func TestWithoutGit(t *testing.T) {
	commands := run(t, "make", "-C", copySources(t), "-n", "tool")
	if !strings.Contains(commands, "main.version="+version(t)+"'") {
		t.Errorf("make tool runs\n%s", commands)
	}
}

// TestRebuild: the same sources make the same files in another folder, by a
// compiler that has cached nothing.
func TestRebuild(t *testing.T) {
	if !testenv.Long() {
		testenv.Skip(t, "builds all again, minutes long (RTL_LONG=1 wants it)")
	}
	words := strings.Fields(run(t, filepath.Join(unpack(t), "bin", "rtl-attach"), "version"))
	commit := strings.TrimSuffix(words[len(words)-1], ")")
	epoch := strings.TrimSpace(run(t, "stat", "-c", "%Y", unpack(t)))
	dir := copySources(t)
	t.Setenv("GOCACHE", t.TempDir())
	run(t, "make", "-C", dir, "-s", "dist", "COMMIT="+commit, "SOURCE_DATE_EPOCH="+epoch)
	want, err := os.ReadFile(filepath.Join(testenv.Artefact(t, "dist"), "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "build", "dist", "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("made again:\n%swas:\n%s", got, want)
	}
}
