package launch

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/inject"
)

// A program's processes load the payload from a file: they may close every descriptor that they inherit. The
// file's name is a secret of these processes: its directory shows no names to others. So nobody can put another
// file there once it is removed, for a process that outlives the tool (decision 0031).

// file is the payload's file. A process of its own, the remover, removes it when this process has ended,
// however it ends.
type file struct {
	path    string
	dir     *os.File
	remover *remover
}

// directoryName matches the names of the directories.
var directoryName = regexp.MustCompile(`^rtl-attach-run-[0-9a-f]{16}$`)

// makeFile makes the file in the first directory where programs can load it.
func makeFile(library []byte) (*file, error) {
	var errs []error
	for _, parent := range inject.StageDirs {
		f, err := makeFileIn(parent, library)
		if err == nil {
			return f, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func makeFileIn(parent string, library []byte) (*file, error) {
	removeLeftovers(parent)
	names, err := nonce(8 + 16)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(parent, "rtl-attach-run-"+names[:16])
	if err := os.Mkdir(path, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	f := &file{path: filepath.Join(path, "librtl-attach-"+names[16:]+".so"), dir: dir}
	if err = f.guard(); err == nil {
		err = f.write(library)
	}
	if err != nil {
		return nil, errors.Join(err, f.remove())
	}
	return f, nil
}

// guard has the file removed when this process ends.
func (f *file) guard() (err error) {
	if inject.IsNoexec(int(f.dir.Fd())) {
		return errors.New("it is mounted noexec")
	}
	if err := unix.Flock(int(f.dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	f.remover, err = startRemover(f.dir, f.path)
	return err
}

// write makes the file readable for every process of the program, of whatever user; others do not know its name.
func (f *file) write(library []byte) error {
	out, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = out.Write(library)
	return errors.Join(err, out.Chmod(0o555), out.Close(), f.dir.Chmod(0o711))
}

// remove removes the file and its directory, and returns when they are gone.
func (f *file) remove() error {
	defer f.dir.Close()
	if f.remover != nil {
		return f.remover.finish()
	}
	return os.Remove(filepath.Dir(f.path))
}

// leftoverAge is older than any directory whose tool has not locked it yet.
const leftoverAge = time.Minute

// removeLeftovers removes directories of this user whose tool and remover were both killed. It ignores errors.
func removeLeftovers(parent string) {
	dir, err := os.Open(parent)
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(1 << 14)
	for _, name := range names {
		if directoryName.MatchString(name) {
			removeLeftover(filepath.Join(parent, name))
		}
	}
}

func removeLeftover(path string) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || int(st.Uid) != os.Getuid() || time.Since(time.Unix(st.Ctim.Unix())) < leftoverAge {
		return
	}
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return // its tool lives
	}
	names, _ := dir.Readdirnames(2)
	for _, name := range names {
		_ = unix.Unlinkat(fd, name, 0)
	}
	_ = unix.Rmdir(path)
}

// nonce returns n random bytes as hexadecimal digits.
func nonce(n int) (string, error) {
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		return "", err
	}
	return hex.EncodeToString(b), nil
}
