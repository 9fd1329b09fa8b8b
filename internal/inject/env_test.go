package inject

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// inNamespaces runs a shell script in new namespaces and starts a busy victim there.
func inNamespaces(t *testing.T, script string, flags uintptr, args ...string) *victim.Victim {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Skip(t, "needs root to make namespaces")
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", script + ` exec "$0" "$@"`, victim.Path(t, "busy")}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	return victim.Run(t, cmd)
}

// TestNamespaces: 39.
func TestNamespaces(t *testing.T) {
	lib := payload(t, "payload.so")
	const private = "mount --make-rprivate / && "
	for _, tc := range []struct {
		name, script string
		flags        uintptr
		staged       bool
	}{
		{"pid and mount", private + "mount -t proc proc /proc &&", unix.CLONE_NEWPID | unix.CLONE_NEWNS, false},
		{"pid, our /proc", "", unix.CLONE_NEWPID, false},
		{"40 no /proc: a staged file", private + "mount -t tmpfs none /proc &&", unix.CLONE_NEWNS, true},
		{
			"40 no /proc, /dev/shm noexec", private + "mount -t tmpfs -o noexec none /dev/shm && mount -t tmpfs none /proc &&",
			unix.CLONE_NEWNS, true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := inNamespaces(t, tc.script, tc.flags, "spin", "futex", "read", "malloc")
			before := v.Inventory(t)
			tr := tracer(t)
			for range 3 {
				rep := inject(t, v, tr, Request{Library: lib, Entry: "rtl_attach", Env: env(9)})
				if rep.EntryResult != 90001 {
					t.Errorf("entry returned %d", rep.EntryResult)
				}
				if (rep.StagedFile != "") != tc.staged {
					t.Errorf("staged file %q", rep.StagedFile)
				}
				if rep.StagedFile != "" {
					if _, err := os.Stat(open(t, v).Root() + rep.StagedFile); !errors.Is(err, os.ErrNotExist) {
						t.Errorf("%s is still there: %v", rep.StagedFile, err)
					}
				}
			}
			v.Unharmed(t)
			v.AsBefore(t, before)
		})
	}
}

// TestStagedFails: an attach that fails while the payload is staged removes the file.
func TestStagedFails(t *testing.T) {
	const script = "mount --make-rprivate / && mount -t tmpfs none /proc &&"
	v := inNamespaces(t, script, unix.CLONE_NEWNS, "spin", "futex", "read", "malloc")
	failOnce(t, v, v.Inventory(t), PointStaged, true)
	tg := open(t, v)
	for _, dir := range StageDirs {
		if left, err := filepath.Glob(tg.Root() + dir + "/" + stagedPrefix(tg) + "*"); err != nil || len(left) > 0 {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
	rep := inject(t, v, tracer(t), Request{Library: payload(t, "payload.so"), Entry: "rtl_attach"})
	if rep.StagedFile == "" {
		t.Error("no file was staged: nothing is tested")
	}
	v.Unharmed(t)
}

// TestMemfdNoexec: 41, where the sysctl belongs to the pid namespace.
func TestMemfdNoexec(t *testing.T) {
	if _, err := os.Stat("/proc/sys/vm/memfd_noexec"); err != nil {
		testenv.Skip(t, "no vm.memfd_noexec in this kernel")
	}
	v := inNamespaces(t, "mount --make-rprivate / && mount -t proc proc /proc && echo 2 > /proc/sys/vm/memfd_noexec &&",
		unix.CLONE_NEWPID|unix.CLONE_NEWNS, "futex", "read")
	rep := inject(t, v, tracer(t), Request{Library: payload(t, "payload.so"), Entry: "rtl_attach"})
	if rep.StagedFile != "" {
		t.Errorf("a staged file %s: the memfd could have been mapped", rep.StagedFile)
	}
	v.Unharmed(t)
}

// TestNoMoreThreads: 46: the clone is refused, or pthread_create after it.
func TestNoMoreThreads(t *testing.T) {
	group := "/sys/fs/cgroup/rtl-attach-test"
	if _, err := os.Stat("/sys/fs/cgroup/pids"); err == nil {
		group = "/sys/fs/cgroup/pids/rtl-attach-test" // version 1
	}
	if err := os.Mkdir(group, 0o700); err != nil {
		testenv.Skip(t, "no control groups: "+err.Error())
	}
	write := func(file, text string) {
		t.Helper()
		f, err := os.OpenFile(group+"/"+file, os.O_WRONLY, 0)
		if err != nil {
			testenv.Skip(t, "no control group that limits threads: "+err.Error())
		}
		_, err = f.WriteString(text)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if !hang.Eventually(func() bool { return os.Remove(group) == nil }) {
			t.Errorf("%s stays", group)
		}
	})
	v := victim.Start(t, "busy", "futex", "read")
	t.Cleanup(v.Stop)
	before := v.Inventory(t)
	write("cgroup.procs", strconv.Itoa(v.PID))
	r := Request{Library: payload(t, "payload.so"), Entry: "rtl_attach"}
	for room, call := range map[int]string{0: "clone", 1: "pthread_create"} {
		write("pids.max", strconv.Itoa(before.Threads+room))
		_, err := Inject(context.Background(), open(t, v), tracer(t), r)
		var failed *BootError
		if !errors.As(err, &failed) || failed.Call != call || !errors.Is(err, unix.EAGAIN) {
			t.Errorf("room for %d threads: error %v, want EAGAIN of %s", room, err, call)
		}
		v.Unharmed(t)
		v.AsBefore(t, before)
	}
	write("pids.max", "max")
	inject(t, v, tracer(t), r)
	v.Unharmed(t)
	v.AsBefore(t, before)
}

// TestLibcReplaced: 53: an upgrade has removed the file that is mapped.
func TestLibcReplaced(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"libc.so.6", "libm.so.6"} {
		b, err := os.ReadFile("/lib/x86_64-linux-gnu/" + name)
		if err != nil {
			testenv.Skip(t, err.Error())
		}
		if err := os.WriteFile(dir+"/"+name, b, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(victim.Path(t, "busy"), "spin", "futex", "read")
	cmd.Env = []string{"LD_LIBRARY_PATH=" + dir}
	v := victim.Run(t, cmd)
	if err := os.WriteFile(dir+"/new", []byte("another file"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+"/new", dir+"/libc.so.6"); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile("/proc/" + strconv.Itoa(v.PID) + "/maps"); !strings.Contains(string(b), dir+"/libc.so.6 (deleted)") {
		t.Fatal("the victim does not run on a deleted libc: nothing is tested")
	}
	inject(t, v, tracer(t), Request{Library: payload(t, "payload.so"), Entry: "rtl_attach"})
	v.Unharmed(t)
}
