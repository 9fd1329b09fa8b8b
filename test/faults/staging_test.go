package faults

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// noProc: the injector could use a file in the target's root, but the payload itself needs /proc.
func noProc(t *testing.T) string {
	v := container{script: "mount -t tmpfs none /proc; "}.onGPU(t, "odd", "mallocs")
	said := refused(t, v.PID, failure.Unsuitable, "no /proc", "target  not touched")
	v.untouched(t)
	file := v.loadedStaged(t)
	v.nothingStaged(t)
	return said + "; the injector alone loads " + file + " and removes it"
}

// loadedStaged makes the injector load a library from a file, and returns the file.
func (v *gpuVictim) loadedStaged(t *testing.T) string {
	t.Helper()
	rep, err := injected(t, v.Victim, inject.Request{Library: library(t, "payload.so"), Entry: "rtl_attach"})
	if err != nil || rep.StagedFile == "" {
		t.Fatalf("%+v, %v", rep, err)
	}
	v.left(t, func(now residue) bool { return now.threads == v.before.threads })
	if _, err := os.Lstat(fmt.Sprintf("/proc/%d/root%s", v.PID, rep.StagedFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", rep.StagedFile, err)
	}
	return rep.StagedFile
}

func nowhereToStage(t *testing.T) string {
	v := container{script: "mount -t tmpfs none /proc; for d in /dev/shm /tmp /run; do mount -t tmpfs -o noexec none $d; done; " +
		"mount -t tmpfs -o ro none /var/tmp; "}.onGPU(t, "odd", "mallocs")
	_, err := injected(t, v.Victim, inject.Request{Library: library(t, "payload.so"), Entry: "rtl_attach"})
	var refused *inject.LoadError
	if !errors.As(err, &refused) || !errors.Is(err, inject.ErrNotStaged) || !errors.Is(err, unix.EROFS) {
		t.Errorf("error %v", err)
	}
	v.untouched(t)
	v.nothingStaged(t)
	return strings.ReplaceAll(fmt.Sprint(err), "\n", "; ")
}

// nothingStaged checks that the folders that the injector tries have no file of the tool.
func (v *gpuVictim) nothingStaged(t *testing.T) {
	t.Helper()
	if left := stagedBelow(t, fmt.Sprintf("/proc/%d/root", v.PID)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func stagedBelow(t *testing.T, root string) (files []string) {
	t.Helper()
	for _, dir := range []string{"/dev/shm", "/tmp", "/run", "/var/tmp"} {
		found, err := filepath.Glob(root + dir + "/.rtl-*")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// diesStaging: 40d. The tool refuses such a target, so an injector in a separate process dies
// instead.
func diesStaging(t *testing.T) string {
	v := container{script: "mount -t tmpfs none /proc; "}.onGPU(t, "odd", "mallocs")
	before := stagedBelow(t, "") // its folders are the machine's
	t.Cleanup(func() { removeNew(t, before) })
	cmd := exec.Command(os.Args[0], "-test.run=^TestDiesStaging$")
	cmd.Env = append(os.Environ(), "RTL_MATRIX_STAGING="+strconv.Itoa(v.PID), "RTL_BUILD="+filepath.Dir(testenv.Artefact(t, "rtl-attach")))
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

// newStaged returns the tool's files that were not there before.
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
	_, err = injected(t, &victim.Victim{PID: pid}, inject.Request{
		Library: library(t, "payload.so"), Entry: "rtl_attach", IdleTimeout: 2 * time.Second, // its bootstrap leaves by itself
	})
	t.Fatalf("not killed: %v", err)
}
