package target

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Nothing outside of the process's root directory is opened: links and .. stay in it, and a mapped file is not another one.
func TestObservedStaysInRoot(t *testing.T) {
	self, err := OpenLight(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	outside := t.TempDir()
	root := filepath.Join(outside, "root")
	secret := filepath.Join(outside, "secret")
	for path, text := range map[string]string{secret: "outside", filepath.Join(root, "lib/own"): "inside", filepath.Join(root, "own"): "inside"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"absolute": secret, "relative": "../secret", "up": "..", "deep": "lib/../../../secret", "within": "/lib/own", "above": "../../../own",
		"magic": "/proc/self/root",
	} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	o := &Observed{t: self.Beside(), root: fd}
	var outer syscall.Stat_t
	if err := syscall.Stat(secret, &outer); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/own": "inside", "/within": "inside", "/above": "inside", "/../own": "inside", "/up/own": "inside",
		"/absolute": "", "/relative": "", "/deep": "", "/up/secret": "", "/../secret": "", "/magic" + secret: "", "own": "", "": "", "/lib": "",
	} {
		f, err := o.OpenPath(path)
		if got := content(t, f, err); got != want {
			t.Errorf("%q: %q, %v", path, got, err)
		}
		f, err = o.OpenFile(Map{Start: 1 << 40, End: 1<<40 + 4096, Inode: outer.Ino, Path: path})
		if got := content(t, f, err); got != "" {
			t.Errorf("%q as the mapped file: %q", path, got)
		}
	}
}

// content returns what is in a file that was opened, and closes it.
func content(t *testing.T, f *os.File, err error) string {
	t.Helper()
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
