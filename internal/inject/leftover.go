package inject

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// A tool that is killed while the target loads a staged file leaves it behind; a
// later one that stages there takes it away. The directory may be anybody's, and
// other tools may be staging in it: what is removed has a name that only we give,
// is a plain file of the user as whom we write, and is this target's, which is
// locked, or older than any load takes. A name that is exchanged meanwhile is
// still one of ours: unlinkat(2) follows nothing, and removes no directory.

// stagedName: the target's pid in its own namespace, its start, a nonce.
var stagedName = regexp.MustCompile(`^\.rtl-payload-\d+-\d+-[0-9a-f]{16}\.so$`)

const (
	stagedAge = time.Hour
	namesMost = 1 << 14 // that are looked at: the directory may be full of them
)

// stagedPrefix is how the names of all files begin that are staged for t.
func stagedPrefix(t *target.Target) string {
	return fmt.Sprintf(".rtl-payload-%d-%d-", t.NSPID[len(t.NSPID)-1], t.StartTicks)
}

// removeLeftovers does what it can: one that stays does no harm to this load.
func removeLeftovers(dir int, prefix string, uid int) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), "staging directory")
	defer f.Close()
	names, _ := f.Readdirnames(namesMost)
	for _, name := range names {
		if stagedName.MatchString(name) && isLeftover(fd, name, prefix, uid) {
			_ = unix.Unlinkat(fd, name, 0)
		}
	}
}

func isLeftover(dir int, name, prefix string, uid int) bool {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	if int(st.Uid) != uid {
		return false
	}
	return strings.HasPrefix(name, prefix) || time.Since(time.Unix(st.Mtim.Unix())) > stagedAge
}
