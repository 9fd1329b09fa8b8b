package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// A root is a root file system in which the released binary is tried.
type root struct{ name, dir string }

// roots are those that make has made: an older and a newer glibc, and none.
func roots() []string { return []string{"bullseye", "trixie", "musl"} }

func find(t *testing.T, name string) root {
	t.Helper()
	testenv.NeedRoot(t)
	r := root{name, filepath.Join(testenv.BuildDir(), "roots", name)}
	if _, err := os.Stat(filepath.Join(r.dir, "etc")); err != nil {
		testenv.Skip(t, name+": no root file system (run: make test-dist)")
	}
	return r
}

// run runs a command there, with folders of the host's at /mnt and /srv. The root's
// processes are the host's: it is in no pid namespace of its own.
func (r root) run(t *testing.T, mnt, srv string, line ...string) string {
	t.Helper()
	enter := []string{filepath.Join("..", "..", "scripts", "in-root"), r.dir, mnt + "=/mnt", srv + "=/srv", "--"}
	return run(t, append(enter, line...)...)
}

// TestRoots: the binary of the tar.gz runs in each root, attaches from there to a
// program on the host, and its trace is the truth.
func TestRoots(t *testing.T) {
	for _, name := range roots() {
		t.Run(name, func(t *testing.T) {
			r, tree, out := find(t, name), unpack(t), t.TempDir()
			tool := func(args ...string) string {
				return r.run(t, tree, out, append([]string{"/mnt/bin/rtl-attach"}, args...)...)
			}
			if printed := tool("version"); !strings.Contains(printed, version(t)) {
				t.Errorf("version prints %q", printed)
			}
			p := harness.Start(t, harness.Stress(4, 2, 256, "--pace", "20"))
			before := p.Snapshot(t)
			pid := strconv.Itoa(p.PID)
			if printed := tool("doctor", pid); !strings.Contains(printed, "an attach would work") {
				t.Errorf("doctor prints\n%s", printed)
			}
			tool("record", "-p", pid, "-d", "1s", "-o", "/srv/trace.db")
			p.NothingLeft(t, before)
			if printed := tool("report", "/srv/trace.db"); !strings.Contains(printed, "Coverage") {
				t.Errorf("report prints\n%s", printed)
			}
			threads := p.TIDs()
			counts := p.Quit(t)
			log := p.Truth(t)
			log.MustHoldOnce(t, counts)
			c := harness.Compare(t, log)
			c.Add(harness.ReadTrace(t, filepath.Join(out, "trace.db")))
			c.Finish(threads)
			c.MustHaveRecorded(200)
		})
	}
}

// TestMuslRoot: the root without glibc is one: musl's loader works there, and a
// program that needs glibc's does not.
func TestMuslRoot(t *testing.T) {
	r := find(t, "musl")
	workloads := filepath.Dir(testenv.Artefact(t, "workloads/hsastress"))
	hello := t.TempDir()
	err := os.WriteFile(filepath.Join(hello, "hello.c"), []byte("int puts(const char *);\nint main(void) { return puts(\"hello\") < 0; }\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	run(t, "musl-gcc", "-o", filepath.Join(hello, "hello"), filepath.Join(hello, "hello.c"))
	if printed := r.run(t, hello, workloads, "/mnt/hello"); printed != "hello\n" {
		t.Errorf("a program of musl's prints %q", printed)
	}
	cmd := exec.Command(filepath.Join("..", "..", "scripts", "in-root"), r.dir, workloads+"=/srv", "--", "/srv/hsastress", "--help")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "not found") {
		t.Errorf("a program of glibc's runs there: %v\n%s", err, out)
	}
}
