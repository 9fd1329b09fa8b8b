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

// A tool that is killed while the target loads a staged file leaves the file behind; the
// next tool that stages there removes it. Other users may own the directory, and other
// tools may stage in it. So the tool removes a file only if its name has the tool's
// pattern, it is a regular file of the user as whom the tool writes, and it was staged
// for this target, which is locked, or is older than any load takes. If another process
// replaces the file in between, the name still has the tool's pattern: unlinkat(2)
// follows no link and removes no directory.

// stagedName matches the target's pid in its own namespace, its start time, and a nonce.
var stagedName = regexp.MustCompile(`^\.rtl-payload-\d+-\d+-[0-9a-f]{16}\.so$`)

const (
	stagedAge = time.Hour
	namesMax  = 1 << 14 // names read: the directory may be full of them
)

// stagedPrefix returns the prefix of the names of all files that are staged for t.
func stagedPrefix(t *target.Target) string {
	return fmt.Sprintf(".rtl-payload-%d-%d-", t.NSPID[len(t.NSPID)-1], t.StartTicks)
}

// removeLeftovers removes leftover files. It ignores errors: a file that stays does not
// affect this load.
func removeLeftovers(dir int, prefix string, uid int) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), "staging directory")
	defer f.Close()
	names, _ := f.Readdirnames(namesMax)
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
