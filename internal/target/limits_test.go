package target

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestSoftLimit(t *testing.T) {
	const limits = `Limit                     Soft Limit           Hard Limit           Units
Max processes             unlimited            31402                processes
Max address space         1048576              unlimited            bytes
`
	if n, ok := softLimit([]byte(limits), "Max address space"); n != 1048576 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	for _, name := range []string{"Max processes", "Max locks"} {
		if n, ok := softLimit([]byte(limits), name); ok {
			t.Errorf("%s: %d", name, n)
		}
	}
}

func TestPIDsGroup(t *testing.T) {
	for groups, want := range map[string][2]string{
		"0::/a/b\n":                             {"/sys/fs/cgroup", "/a/b"},
		"9:name=systemd:/x\n8:pids:/p\n0::/u\n": {"/sys/fs/cgroup/pids", "/p"},
		"0::/u\n8:pids:/p\n":                    {"/sys/fs/cgroup/pids", "/p"},
		"0::/../elsewhere\n":                    {},
		"0::nonsense\n":                         {},
		"":                                      {},
	} {
		if mount, group := pidsGroup(groups); mount != want[0] || group != want[1] {
			t.Errorf("%q: %s, %s", groups, mount, group)
		}
	}
}

func TestSpareThreads(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	mount := fstest.MapFS{
		"a/pids.max": file("10\n"), "a/pids.current": file("7\n"),
		"a/b/pids.max": file("max\n"), "a/b/pids.current": file("5\n"),
		"a/c/pids.max": file("2\n"), "a/c/pids.current": file("3\n"),
	}
	for group, want := range map[string]uint64{"/a/b": 3, "/a": 3, "/a/c": 0, "/": math.MaxUint64, "/x": math.MaxUint64} {
		if got := spareThreads(mount, group); got != want {
			t.Errorf("%s: %d, want %d", group, got, want)
		}
	}
}
