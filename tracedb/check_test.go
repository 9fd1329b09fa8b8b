package tracedb

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rtl-attach/rtl-attach/test/testenv"
)

func TestCheckRefuses(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken.db")
	must(t, os.WriteFile(taken, nil, 0o644))
	dangling := filepath.Join(dir, "dangling.db")
	must(t, os.Symlink(filepath.Join(dir, "elsewhere"), dangling))
	must(t, os.WriteFile(filepath.Join(dir, "fresh.db-journal"), nil, 0o644))
	for path, want := range map[string]error{
		taken:                                   ErrExists,
		dangling:                                ErrExists,
		filepath.Join(dir, "fresh.db"):          ErrExists,
		filepath.Join(dir, "no", "such", "dir"): ErrUnwritable,
		filepath.Join(taken, "below a file"):    ErrUnwritable,
	} {
		if _, err := Check(path, 1); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	if _, err := Check(filepath.Join(dir, "huge.db"), 1<<62); !errors.Is(err, ErrNoSpace) {
		t.Errorf("huge: %v", err)
	}
}

// Another process may create the file between the check and the creation.
func TestCreateOverwritesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "trace.db")
	place, err := Check(path, 1)
	must(t, err)
	victim := filepath.Join(dir, "victim")
	must(t, os.WriteFile(victim, []byte("precious"), 0o644), os.Symlink(victim, path))
	if _, err := Create(place); !errors.Is(err, ErrExists) {
		t.Errorf("got %v", err)
	}
	if content, err := os.ReadFile(victim); err != nil || string(content) != "precious" {
		t.Errorf("the victim holds %q, %v", content, err)
	}
}

func TestFileBelongsToTheUserBehindSudo(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "not root")
	}
	t.Setenv("SUDO_UID", "1234")
	t.Setenv("SUDO_GID", "2345")
	db := create(t)
	must(t, db.Close())
	info, err := os.Stat(db.place.Path)
	must(t, err)
	if uid, gid := owner(info); uid != 1234 || gid != 2345 {
		t.Errorf("owned by %d:%d", uid, gid)
	}
}

func TestNetworkFilesystem(t *testing.T) {
	place, err := Check(filepath.Join(t.TempDir(), "trace.db"), 1)
	must(t, err)
	place.Filesystem = "nfs" // no NFS is mounted here: the test covers only the reaction to one
	db, err := Create(place)
	must(t, err)
	record(t, begin(t, db, 42), 0x300)
	must(t, db.Close())
	read, err := Open(place.Path)
	must(t, err)
	defer read.Close()
	expect(t, read, "SELECT count(*) FROM rtl_dispatch", "3")
}
