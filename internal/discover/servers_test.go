package discover

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// TestServersBelow: workers below one child are one server, those below two are two;
// processes elsewhere are none.
func TestServersBelow(t *testing.T) {
	tree := target.ProcTree{}
	for pid, parent := range map[int]int{1: 0, 10: 1, 11: 10, 12: 10, 20: 1, 30: 1, 31: 30, 99: 98} {
		tree[pid] = target.ProcInfo{PID: pid, Parent: parent, Comm: "p"}
	}
	processes := func(pids ...int) (list []Process) {
		for _, pid := range pids {
			list = append(list, ProcessOf(tree[pid]))
		}
		return list
	}
	for _, c := range []struct {
		root    int
		of      []Process
		heads   string
		workers []int
	}{
		{1, processes(11, 12), "pid 10 (p) with 2 GPU processes", []int{2}},
		{10, processes(11, 12), "pid 11 (p), pid 12 (p)", []int{1, 1}},
		{1, processes(11, 12, 20), "pid 10 (p) with 2 GPU processes, pid 20 (p)", []int{2, 1}},
		{1, processes(20, 31, 99), "pid 20 (p), pid 30 (p)", []int{1, 1}},
		{20, processes(11), "", nil},
	} {
		servers := serversBelow(c.root, c.of, tree)
		if got := describeServers(servers); got != c.heads || len(servers) != len(c.workers) {
			t.Errorf("below %d: %q, want %q", c.root, got, c.heads)
			continue
		}
		for i, s := range servers {
			if len(s.workers) != c.workers[i] {
				t.Errorf("below %d: %d workers of %d, want %d", c.root, len(s.workers), s.head.PID, c.workers[i])
			}
		}
	}
}

// TestOneServer: copies of the parent's program in its process group are a server's
// workers; ranks of their own make others so, too; a shell's jobs are neither.
func TestOneServer(t *testing.T) {
	if os.Getenv("RTL_TEST_CHILD") != "" {
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the test ends
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := func(file, rank string, group bool, args ...string) server {
		cmd := exec.Command(file, args...)
		cmd.Env = append(os.Environ(), "RTL_TEST_CHILD=1", rank)
		cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: group}
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
		one := Process{PID: cmd.Process.Pid}
		return server{one, []Process{one}}
	}
	const run = "-test.run=^TestOneServer$"
	for _, c := range []struct {
		name    string
		servers []server
		want    bool
	}{
		{"copies", []server{child(self, "", false, run), child(self, "", false, run)}, true},
		{"one in a group of its own", []server{child(self, "", false, run), child(self, "", true, run)}, false},
		{"other programs", []server{child("cat", "", false), child("cat", "", false)}, false},
		{"ranks", []server{child("cat", "RANK=0", true), child("cat", "RANK=1", true)}, true},
		{"one rank twice", []server{child("cat", "RANK=0", true), child("cat", "RANK=0", true)}, false},
		{"one without a rank", []server{child("cat", "RANK=0", true), child("cat", "", true)}, false},
	} {
		if got := isOneServer(os.Getpid(), c.servers); got != c.want {
			t.Errorf("%s: one server: %v", c.name, got)
		}
	}
}

// TestRefuseSeveral: the failure names the servers, and touches nothing.
func TestRefuseSeveral(t *testing.T) {
	tree := target.ProcTree{1: {PID: 1, Comm: "init"}, 1 << 23: {PID: 1 << 23, Parent: 1, Comm: "a"}, 1<<23 + 1: {PID: 1<<23 + 1, Parent: 1, Comm: "b"}}
	err := RefuseSeveral(1, []Process{ProcessOf(tree[1<<23]), ProcessOf(tree[1<<23+1])}, tree)
	var f *failure.Error
	if !errors.As(err, &f) || f.Code != failure.Usage || f.Target != failure.Untouched || !strings.Contains(f.Cause, "pid 8388608 (a), pid 8388609 (b)") {
		t.Errorf("%v: %+v", err, f)
	}
	if err := RefuseSeveral(1, []Process{ProcessOf(tree[1<<23])}, tree); err != nil {
		t.Error(err)
	}
}
