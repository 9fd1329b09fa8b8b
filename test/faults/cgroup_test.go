package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/hang"
)

// cgroup puts a process into its own control group until the end of the test. The controller is a
// version 1 controller, or part of version 2.
func cgroup(t *testing.T, controller string, pid int) (dir string) {
	t.Helper()
	home := filepath.Join("/sys/fs/cgroup", controller)
	if _, err := os.Stat(home); err != nil {
		home = "/sys/fs/cgroup"
	}
	dir = filepath.Join(home, fmt.Sprintf("rtl-matrix-%d", pid))
	if err := os.Mkdir(dir, 0o700); err != nil {
		cannot(t, "no control group can be made: "+err.Error())
	}
	t.Cleanup(func() {
		_ = write(filepath.Join(home, "cgroup.procs"), strconv.Itoa(pid)) // unless it has ended
		if !hang.Eventually(func() bool { return os.Remove(dir) == nil }) {
			t.Errorf("%s cannot be removed", dir)
		}
	})
	if err := write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
		cannot(t, "no process can be put into a control group: "+err.Error())
	}
	return dir
}

// write writes to an existing file of the kernel.
func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// freeze stops a process with the version 1 freezer: only a thaw wakes it. (In version 2's
// freezer ptrace still works.)
func freeze(t *testing.T, pid int) (thaw func()) {
	t.Helper()
	if _, err := os.Stat("/sys/fs/cgroup/freezer"); err != nil {
		cannot(t, "no freezer of control groups version 1")
	}
	state := filepath.Join(cgroup(t, "freezer", pid), "freezer.state")
	set := func(to string) {
		if err := write(state, to); err != nil {
			t.Error(err)
		}
		if !hang.Eventually(func() bool { b, _ := os.ReadFile(state); return strings.TrimSpace(string(b)) == to }) {
			t.Errorf("the victim is not %s", to)
		}
	}
	set("FROZEN")
	t.Cleanup(func() { _ = write(state, "THAWED") }) // before it is to end
	return func() { set("THAWED") }
}
