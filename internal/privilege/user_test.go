package privilege_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/privilege"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// A folder, by its owner, group and mode.
type folder struct {
	uid, gid int
	mode     fs.FileMode
}

// TestUserDo: Do creates files as that user, where that user may create files, and
// fn has no rights of root.
func TestUserDo(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "not root")
	}
	const uid, gid, group = 4242, 4243, 4244
	user, root := privilege.User{UID: uid, GID: gid, Groups: []int{group}}, privilege.User{}
	for name, c := range map[string]struct {
		user privilege.User
		in   folder
		may  bool
	}{
		"its own":                {user, folder{uid, 0, 0o700}, true},
		"its group's":            {user, folder{0, gid, 0o770}, true},
		"a further group's":      {user, folder{0, group, 0o770}, true},
		"everybody's":            {user, folder{0, 0, 0o777 | fs.ModeSticky}, true},
		"its own, read-only":     {user, folder{uid, 0, 0o500}, false},
		"root's":                 {user, folder{0, 0, 0o755}, false},
		"our group's":            {user, folder{0, 0, 0o770}, false},
		"somebody's, as root":    {root, folder{uid, gid, 0o755}, false},
		"root's, as root":        {root, folder{0, 0, 0o700}, true},
		"a group's that it left": {privilege.User{UID: uid, GID: gid}, folder{0, group, 0o770}, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(folderOf(t, c.in), "new")
			err := c.user.Do(func() error { return os.WriteFile(path, nil, 0o600) })
			if c.may != (err == nil) || !c.may && !errors.Is(err, fs.ErrPermission) {
				t.Errorf("%+v in %+v: %v", c.user, c.in, err)
			}
			var st unix.Stat_t
			if err := unix.Stat(path, &st); c.may && (err != nil || int(st.Uid) != c.user.UID || int(st.Gid) != c.user.GID) {
				t.Errorf("it belongs to %d, group %d: %v", st.Uid, st.Gid, err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Errorf("root can no longer write: %v", err)
			}
		})
	}
}

// folderOf creates the folder below a directory that every user may enter.
func folderOf(t *testing.T, f folder) string {
	t.Helper()
	dir := t.TempDir()
	for _, err := range []error{
		os.Chmod(filepath.Dir(dir), 0o755),
		os.Chown(dir, f.uid, f.gid),
		os.Chmod(dir, f.mode),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestUserDoAndLower: after Do, libc can still change the user of all threads at once.
func TestUserDoAndLower(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "not root")
	}
	var p privilege.Privileges
	err := privilege.User{UID: 4242, GID: 4242}.Do(func() error { return errors.Join(p.Lower(), p.Raise()) })
	if err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(folderOf(t, folder{4242, 0, 0o700}), "new"), nil, 0o600); err != nil {
		t.Errorf("root can no longer write: %v", err)
	}
}
