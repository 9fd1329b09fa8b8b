package inject

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/privilege"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

func opened(t *testing.T) *target.Target {
	t.Helper()
	tg, err := target.Open(victim.Start(t, "plain").PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tg.Close)
	return tg
}

func user(t *testing.T, tg *target.Target) privilege.User {
	t.Helper()
	u, err := tg.ThreadUser(tg.LiveThread())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestLeftovers: the next load removes the files that a killed tool has staged, and no
// others.
func TestLeftovers(t *testing.T) {
	tg, dir := opened(t), t.TempDir()
	killed, err := stage(tg, user(t, tg), dir, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	killed.dir.Close()
	const other, nonce = ".rtl-payload-1-2-", "0123456789abcdef.so"
	own, long := stagedPrefix(tg), time.Now().Add(-2*stagedAge)
	removed := []string{own + nonce, other + nonce}
	kept := []string{
		other + "fedcba9876543210.so", "x" + own + nonce, own + nonce + "x", own + "0.so", other + "directory",
		own + "000000000000000a.so", own + "000000000000000b.so", own + "000000000000000c.so",
	}
	for _, name := range slices.Concat(removed, kept[:4]) {
		create(t, filepath.Join(dir, name))
	}
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, kept[4]), 0o700),
		os.Mkdir(filepath.Join(dir, kept[5]), 0o700),
		os.Symlink(removed[0], filepath.Join(dir, kept[6])),
		unix.Mkfifo(filepath.Join(dir, kept[7]), 0o600),
		os.Chtimes(filepath.Join(dir, removed[1]), long, long),
		os.Chtimes(filepath.Join(dir, kept[1]), long, long),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		kept = append(kept, own+"000000000000000d.so")
		create(t, filepath.Join(dir, kept[8]))
		if err := os.Chown(filepath.Join(dir, kept[8]), 4242, -1); err != nil {
			t.Fatal(err)
		}
	}
	next, err := stage(tg, user(t, tg), dir, 2, []byte("code"))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(next.path()); string(b) != "code" {
		t.Errorf("staged %q, %v", b, err)
	}
	if err := next.remove(); err != nil {
		t.Error(err)
	}
	slices.Sort(kept)
	if left := names(t, dir); !slices.Equal(left, kept) {
		t.Errorf("left are\n%q, not\n%q", left, kept)
	}
}

func create(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// TestStagedRemains: a file that cannot be removed is reported, and the tool stages in no
// other directory. A file that another process has removed is no error.
func TestStagedRemains(t *testing.T) {
	tg, dir := opened(t), t.TempDir()
	for i, instead := range []func(path string) error{
		func(string) error { return nil },
		func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		f, err := stage(tg, user(t, tg), dir, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Remove(f.path()), instead(f.path())); err != nil {
			t.Fatal(err)
		}
		var remains *RemainsError
		err = f.remove()
		if errors.As(err, &remains) != (i == 1) || (err == nil) != (i == 0) {
			t.Errorf("%d: %v", i, err)
		}
		if refused := fmt.Errorf("%w: %w", ErrNotStaged, err); i == 1 && fileRefused(refused) {
			t.Error("it would go on with the next directory")
		}
	}
}
