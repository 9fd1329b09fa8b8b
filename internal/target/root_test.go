package target_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/hang"
	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestOpenInRoot: a filesystem's type is known without a question to it.
func TestOpenInRoot(t *testing.T) {
	tg := open(t, victim.Start(t, "plain").PID)
	if kind := filesystem(t, tg, "proc"); kind != "proc" {
		t.Errorf("/proc lies on %q", kind)
	}
	v := victim.OnFUSE(t, "shm", "taken")
	tg = open(t, v.PID)
	for path, want := range map[string]string{"/dev/shm": "fuse", "proc": "tmpfs"} {
		if kind := filesystem(t, tg, path); kind != want {
			t.Errorf("%s lies on %q, not on %s", path, kind, want)
		}
	}
	if asked := v.Ask(t, "?"); asked != "asked 0" {
		t.Errorf("its server was %s times", asked)
	}
}

func filesystem(t *testing.T, tg *target.Target, path string) string {
	t.Helper()
	p, err := tg.OpenInRoot(path)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer p.Close()
	return p.Filesystem
}

// TestLinksOutOfRoot: links of the target's, and steps upwards, end in its root.
func TestLinksOutOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "not root")
	}
	root, up := t.TempDir(), strings.Repeat("../", 40)
	for link, to := range map[string]string{
		"tmp": "/etc", "dev/shm": up + "etc", "proc": "/..//" + up + "etc", "run": "/tmp", "lib64": "/etc",
		"lib": "usr/lib", "usr/lib": up + "etc", "var": "../etc/..", "away": "/bin",
	} {
		link := filepath.Join(root, link)
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(to, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(root, "etc"), 0o755), os.WriteFile(filepath.Join(root, "etc/passwd"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	tg := open(t, inRoot(t, root).PID)
	for path, want := range map[string]string{
		"/tmp": "/etc", "/dev/shm": "/etc", "proc": "/etc", "/run": "/etc", "/lib64/passwd": "/etc/passwd",
		"/lib/passwd": "/etc/passwd", "/var/etc": "/etc", up + "tmp": "/etc", "/..": "", "/usr/../..": "",
	} {
		p, err := tg.OpenInRoot(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if led := leadsTo(t, p); led != root+want {
			t.Errorf("%s leads to %s", path, led)
		}
		p.Close()
	}
	if _, err := tg.OpenInRoot("/away"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a link to what its root does not have: %v", err)
	}
}

// inRoot starts a victim whose root directory that is.
func inRoot(t *testing.T, root string) *victim.Victim {
	t.Helper()
	program, err := os.ReadFile(victim.Path(t, "static"))
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "program"), program, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/program")
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: root}
	return victim.Run(t, cmd)
}

func leadsTo(t *testing.T, p *target.Place) string {
	t.Helper()
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", p.FD))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// TestFileOnFUSE: to read a file's symbols, questions must be asked. They are watched.
func TestFileOnFUSE(t *testing.T) {
	v := victim.OnFUSE(t, "file", "taken")
	tg := open(t, v.PID)
	maps, err := tg.Maps()
	if err != nil {
		t.Fatal(err)
	}
	file := target.Module{Image: &target.Image{}, Name: "libpthread-2.31.so"}
	for _, m := range maps {
		if strings.HasSuffix(m.Path, "/mnt/libpthread-2.31.so") { // in a chroot, with more in front
			file.Base = m.Start
		}
	}
	done := make(chan error, 1)
	go func() {
		_, _, err := tg.FileSymbol(maps, file, "nptl_version")
		done <- err
	}()
	if !hang.Eventually(func() bool {
		s := target.Stalled(v.PID)
		return s.Time > 50*time.Millisecond && s.Source == target.Filesystem
	}) {
		t.Error("nobody would notice that it hangs")
	}
	v.Tell(t, "e") // the kernel answers in its server's place
	if err := <-done; err == nil {
		t.Error("it found something all the same")
	}
}
