package target

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFamilies(t *testing.T) {
	f := ProcTree{2: {PID: 2, Parent: 1}, 3: {PID: 3, Parent: 1}, 4: {PID: 4, Parent: 3}, 5: {PID: 5, Parent: 4}, 6: {PID: 6, Parent: 6}}
	circle := ProcTree{1: {PID: 1, Parent: 4}, 3: {PID: 3, Parent: 1}, 4: {PID: 4, Parent: 3}} // pids that were used again
	for _, c := range []struct {
		f            ProcTree
		pid          int
		below, above []int
	}{
		{f, 1, []int{2, 3, 4, 5}, nil},
		{f, 3, []int{4, 5}, []int{1}},
		{f, 5, nil, []int{4, 3, 1}},
		{f, 6, nil, []int{6}},
		{circle, 3, []int{4, 1}, []int{1, 4, 3}},
	} {
		var below []int
		for _, k := range c.f.Descendants(c.pid) {
			below = append(below, k.PID)
		}
		if above := c.f.Ancestors(c.pid); !slices.Equal(below, c.below) || !slices.Equal(above, c.above) {
			t.Errorf("pid %d: below %v, want %v; above %v, want %v", c.pid, below, c.below, above, c.above)
		}
	}
}

// child runs with a file of ours as its descriptor 3, until the test's end.
func child(t *testing.T, file *os.File) *Target {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{file}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	target, err := OpenLight(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.Close)
	return target
}

// TestInheritedDriver: what a child has from its parent, by fork, is told from
// what it has opened itself.
func TestInheritedDriver(t *testing.T) {
	fd, err := unix.MemfdCreate("softgpu:kfd", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	driver := os.NewFile(uintptr(fd), "driver")
	defer driver.Close()
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	copied, opened := child(t, driver), child(t, again)
	again.Close()
	me, err := OpenLight(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer me.Close()
	if !copied.InheritedDriver(me) {
		t.Error("a copy of our descriptor counts as its own")
	}
	if opened.InheritedDriver(me) {
		t.Error("a descriptor of its own counts as a copy of ours")
	}
	descendants, err := Descendants(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{copied.PID, opened.PID} {
		if !slices.ContainsFunc(descendants, func(k ProcInfo) bool { return k.PID == want && k.Parent == os.Getpid() && k.StartTicks != 0 }) {
			t.Errorf("pid %d is not among %+v", want, descendants)
		}
	}
}
