package inject

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/test/testenv"
	"github.com/rtl-attach/rtl-attach/test/victim"
)

// TestStagedElsewhere: the tool skips a directory whose filesystem server need not
// answer, and sends it no request.
func TestStagedElsewhere(t *testing.T) {
	v := victim.OnFUSE(t, "shm", "taken")
	rep := inject(t, v, tracer(t), Request{Library: payload(t, "payload.so"), Entry: "rtl_attach", Env: env(9)})
	if !strings.HasPrefix(rep.StagedFile, "/tmp/") {
		t.Errorf("the payload was loaded from %q", rep.StagedFile)
	}
	if asked := v.Ask(t, "?"); asked != "asked 0" {
		t.Errorf("its server was %s times", asked)
	}
}

// TestStackOnFUSE: the tool does not stop a thread whose stack is in a file on FUSE.
func TestStackOnFUSE(t *testing.T) {
	v := victim.OnFUSE(t, "stack", "taken")
	rep := inject(t, v, tracer(t), Request{Library: payload(t, "payload.so"), Entry: "rtl_attach", Env: env(9)})
	if rep.TID != v.PID {
		t.Errorf("thread %d was used, not the main one %d", rep.TID, v.PID)
	}
	if asked := v.Ask(t, "?"); asked != "asked 0" {
		t.Errorf("its server was %s times", asked)
	}
}

// copied copies a program to a folder of the test: an ordinary user may not be permitted to enter that of the built files.
func copied(t *testing.T, program string) string {
	t.Helper()
	code, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), filepath.Base(program))
	if err := os.WriteFile(path, code, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestStagedAsTarget: the tool creates no file where the target's user could not create
// or reach one; elsewhere the file looks as if the target had created it.
func TestStagedAsTarget(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "not root")
	}
	const uid, group = 4242, 4243
	home := t.TempDir()
	if err := os.Chmod(filepath.Dir(home), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copied(t, victim.Path(t, "plain")))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{group}}}
	tg := open(t, victim.Run(t, cmd))
	shared := filepath.Join(home, "shared")
	for _, err := range []error{os.Mkdir(shared, 0o700), os.Chown(shared, 0, group), os.Chmod(shared, 0o770)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for mode, may := range map[os.FileMode]bool{0o755: true, 0o700: false} {
		if err := os.Chmod(filepath.Dir(home), mode); err != nil {
			t.Fatal(err)
		}
		if _, err := stage(tg, user(t, tg), home, 1, nil); !errors.Is(err, os.ErrPermission) {
			t.Errorf("in root's folder: %v", err)
		}
		f, err := stage(tg, user(t, tg), shared, 1, []byte("code"))
		if may != (err == nil) {
			t.Errorf("in its group's folder, its way there open %v: %v", may, err)
		}
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(f.path(), &st); err != nil || st.Uid != uid || st.Gid != uid || st.Mode&0o777 != 0o700 || st.Size != 4 {
			t.Errorf("%+v, %v", st, err)
		}
		if err := f.remove(); err != nil {
			t.Error(err)
		}
	}
	if left := slices.Concat(names(t, home), names(t, shared)); !slices.Equal(left, []string{"shared"}) {
		t.Errorf("left: %q", left)
	}
}
