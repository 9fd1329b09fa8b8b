package harness

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// Runtime is a Debian release with its ROCm: a root file system and the workloads that were built
// in it (make runtimes).
type Runtime struct {
	Suite string // "trixie"
	root  string
	build string
}

// FindRuntime skips the test for a release that is not there, with the reason.
func FindRuntime(t testing.TB, suite string) Runtime {
	t.Helper()
	build := testenv.BuildDir()
	r := Runtime{Suite: suite, root: filepath.Join(build, "roots", suite), build: build}
	if why, err := os.ReadFile(filepath.Join(build, "runtimes", suite, "missing")); err == nil {
		testenv.Skip(t, "Debian "+suite+": "+strings.TrimSpace(string(why)))
	}
	if os.Geteuid() != 0 {
		testenv.Skip(t, "Debian "+suite+": only root can enter its root file system")
	}
	if _, err := os.Stat(filepath.Join(r.root, "etc")); err != nil {
		testenv.Skip(t, "Debian "+suite+": no root file system (run: make runtimes)")
	}
	return r
}

// given is the release that RTL_RUNTIME names for every workload of a run, or nil.
func given(t testing.TB) *Runtime {
	t.Helper()
	suite := os.Getenv("RTL_RUNTIME")
	if suite == "" {
		return nil
	}
	r := FindRuntime(t, suite)
	return &r
}

// Version returns the version of a package in the release, "" if it is not installed. The name
// may be a pattern that matches one package.
func (r Runtime) Version(t testing.TB, pattern string) string {
	t.Helper()
	out, err := exec.Command("dpkg-query", "--admindir="+filepath.Join(r.root, "var/lib/dpkg"), "-W", "-f", "${Version}\n", pattern).Output()
	if err != nil {
		return ""
	}
	version, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return version
}

// Has reports whether a workload was built for the release.
func (r Runtime) Has(program string) bool {
	_, err := os.Stat(filepath.Join(r.build, "runtimes", r.Suite, "workloads", program))
	return err == nil
}

// command starts a workload in the release, which has other files at the same paths, like a
// container. The simulator writes its log into dir.
func (r Runtime) command(dir string, w Workload) *exec.Cmd {
	_, here, _, _ := runtime.Caller(0)
	enter := filepath.Join(filepath.Dir(here), "..", "..", "scripts", "in-root")
	args := []string{r.root, r.build + "=" + inRootBuild, dir + "=" + inRootLogs, "--", "/usr/bin/env", "-i"}
	args = append(args, environment("/usr/bin:/bin", inRootBuild+"/libsoftgpu.so", inRootLogs, w)...)
	return exec.Command(enter, append(args, w.line(inRootBuild, r.program(w.Program), inRootLogs)...)...)
}

// Folders in a release for the build output and for the logs.
const inRootBuild, inRootLogs = "/srv", "/mnt"

// program returns the path of a workload in the release.
func (r Runtime) program(name string) string {
	return filepath.Join(inRootBuild, "runtimes", r.Suite, "workloads", name)
}

// WorkloadFile returns the path of a file of build/workloads as workloads see it.
func WorkloadFile(t testing.TB, name string) string {
	t.Helper()
	if r := given(t); r != nil {
		return r.program(name)
	}
	return testenv.Artefact(t, filepath.Join("workloads", name))
}

// BuiltFile returns the path, as workloads see it, of a file that make has built for all releases.
func BuiltFile(t testing.TB, name string) string {
	t.Helper()
	path := testenv.Artefact(t, name)
	if given(t) != nil {
		return filepath.Join(inRootBuild, name)
	}
	return path
}

// Files returns the files of the root file system with size and time, to find changes.
func (r Runtime) Files(t testing.TB) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(r.root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err == nil {
			files[path] = fmt.Sprint(info.Mode(), info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
