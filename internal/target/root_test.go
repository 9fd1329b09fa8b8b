package target_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/target/victim"
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
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if s := target.Stalled(v.PID); s.Time > 50*time.Millisecond && s.Source == target.Filesystem {
			break
		}
		if time.Now().After(deadline) {
			t.Error("nobody would notice that it hangs")
			break
		}
	}
	v.Tell(t, "e") // the kernel answers in its server's place
	if err := <-done; err == nil {
		t.Error("it found something all the same")
	}
}
