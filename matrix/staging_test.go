package matrix

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/target/victim"
)

// diesStaging: 40d. The tool refuses such a target, so that an injector in a process
// of its own dies in its place.
func diesStaging(t *testing.T) string {
	v := container{script: "mount -t tmpfs none /proc; "}.onGPU(t, "odd", "mallocs")
	before := stagedBelow(t, "") // its folders are the machine's
	t.Cleanup(func() { removeNew(t, before) })
	cmd := exec.Command(os.Args[0], "-test.run=^TestDiesStaging$")
	cmd.Env = append(os.Environ(), "RTL_MATRIX_STAGING="+strconv.Itoa(v.PID), "RTL_BUILD="+filepath.Dir(artefact(t, "rtl-attach")))
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		t.Fatalf("the injector was not killed: %v\n%s", cmd.ProcessState, out)
	}
	left := newStaged(t, before)
	if len(left) != 1 {
		t.Fatalf("in the target's folders: %v: nothing is tested", left)
	}
	v.well(t)
	next := v.loadedStaged(t)
	v.well(t)
	inject.Fault = killAtStaged(v.PID)
	defer func() { inject.Fault = nil }()
	if _, err := injected(t, v.Victim, inject.Request{Library: library(t, "payload.so"), Entry: "rtl_attach"}); err == nil {
		t.Error("an injection into a target that is killed meanwhile succeeds")
	}
	if left := newStaged(t, before); len(left) > 0 {
		t.Errorf("left by the target's death: %v", left)
	}
	return fmt.Sprintf("%s, left by a killed injector, is gone when the next has loaded %s; none is left by a killed target", left[0], next)
}

// newStaged are files of ours that were not there before.
func newStaged(t *testing.T, before []string) []string {
	t.Helper()
	return slices.DeleteFunc(stagedBelow(t, ""), func(f string) bool { return slices.Contains(before, f) })
}

func removeNew(t *testing.T, before []string) {
	t.Helper()
	for _, f := range newStaged(t, before) {
		if err := os.Remove(f); err != nil {
			t.Error(err)
		}
	}
}

func killAtStaged(pid int) func(inject.Point) error {
	return func(p inject.Point) error {
		if p != inject.PointStaged {
			return nil
		}
		return unix.Kill(pid, unix.SIGKILL)
	}
}

// TestDiesStaging is the injector of diesStaging.
func TestDiesStaging(t *testing.T) {
	pid, err := strconv.Atoi(os.Getenv("RTL_MATRIX_STAGING"))
	if err != nil {
		return
	}
	inject.Fault = killAtStaged(os.Getpid())
	_, err = injected(t, &victim.Victim{PID: pid}, inject.Request{Library: library(t, "payload.so"), Entry: "rtl_attach"})
	t.Fatalf("not killed: %v", err)
}
