package ps

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"golang.org/x/sys/unix"
)

// TestNotListed: the failure has all that a failure has.
func TestNotListed(t *testing.T) {
	f := notListed(&fs.PathError{Op: "open", Path: "/proc", Err: unix.EACCES})
	if f.What == "" || f.Cause == "" || f.Fix == "" || f.Target == "" || f.Code != failure.Failed {
		t.Errorf("%+v", f)
	}
}

func TestContainerOf(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for groups, want := range map[string]string{
		"0::/\n":                  "",
		"0::/docker/" + id + "\n": "0123456789ab",
		"0::/system.slice/docker-" + id + ".scope\n":                                 "docker 0123456789ab",
		"0::/kubepods.slice/kubepods-pod1_2.slice/cri-containerd-" + id + ".scope\n": "cri-containerd 0123456789ab",
		"12:pids:/kubepods/burstable/pod1/" + id + "\n":                              "0123456789ab",
		"0::/user.slice/user-0.slice/libpod-" + id + ".scope/container\n":            "libpod 0123456789ab",
		"0::/lxc.payload.web/system.slice\n":                                         "web",
		"0::/machine.slice/machine-db.scope\n":                                       "db.scope",
		"0::/system.slice/serve.service\n":                                           "",
		"0::/" + strings.Repeat("f", 65) + "\n":                                      "",
		"0::/lxc.payload." + strings.Repeat("x", 5000) + "\n":                        strings.Repeat("x", 64),
		"0::/" + strings.Repeat("a", 500) + "-" + id + ".scope\n":                    "",
	} {
		if got := containerOf(groups); got != want {
			t.Errorf("%.80q: %q, want %q", groups, got, want)
		}
	}
}

// driver is what the kernel shows of two GPUs behind two processors.
func driver(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range map[string]string{"0": "0\n", "1": "0\n", "2": "4711\n", "10": "815\n"} {
		m["topology/nodes/"+name+"/gpu_id"] = &fstest.MapFile{Data: []byte(text)}
	}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

func TestGPUsInUse(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		want  []int
	}{
		{nil, nil},
		{map[string]string{"proc/5/queues/0/gpuid": "815\n", "proc/5/queues/1/gpuid": "815\n", "proc/5/vram_4711": "1\n"}, []int{1}},
		{map[string]string{"proc/5/vram_4711": "4096\n", "proc/5/vram_815": "0\n"}, []int{0}},
		{map[string]string{"proc/6/queues/0/gpuid": "815\n"}, nil},
		{map[string]string{"proc/5/queues/0/gpuid": "99\n"}, nil},
	} {
		if got := gpusInUse(driver(c.files), 5); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.files, got, c.want)
		}
	}
}

// TestRelate: pids that are used again while we look can make circles.
func TestRelate(t *testing.T) {
	l := &Listing{
		Processes: []Process{{PID: 10}, {PID: 12}, {PID: 20}, {PID: 21}},
		parents:   map[int]int{10: 1, 11: 10, 12: 11, 20: 21, 21: 20, 30: 31, 31: 30},
	}
	l.relate()
	if p := l.Processes; p[0].Parent != 0 || p[1].Parent != 10 || !slices.Equal(p[0].Workers, []int{12}) {
		t.Errorf("%+v", p)
	}
}
