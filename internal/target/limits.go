package target

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// SpareMemory is how many bytes of address space the target may still map
// (RLIMIT_AS); MaxUint64: there is no limit, or it cannot be read.
func (t *Target) SpareMemory() uint64 {
	limits, err := readProc(t.taskPath("limits"))
	if err != nil {
		return math.MaxUint64
	}
	limit, limited := softLimit(limits, "Max address space")
	size, err := readAgain(t.statm)
	words := bytes.Fields(size)
	if err != nil || !limited || len(words) == 0 {
		return math.MaxUint64
	}
	pages, err := strconv.ParseUint(string(words[0]), 10, 52)
	if err != nil {
		return math.MaxUint64
	}
	return limit - min(limit, pages*pageBytes)
}

// unlimited are the capabilities that lift RLIMIT_NPROC (clone(2), EAGAIN).
const unlimited = 1<<unix.CAP_SYS_RESOURCE | 1<<unix.CAP_SYS_ADMIN

// UserThreads compares how many threads the target's user has, as far as they
// are seen from here, with how many it may have (RLIMIT_NPROC); false: it may
// have any number. The kernel counts for each user namespace, and does not say.
func (t *Target) UserThreads() (have, limit uint64, limited bool) {
	status, err := t.ThreadStatus(t.LiveThread())
	if err != nil || status.RealUID <= 0 || status.Capabilities&unlimited != 0 {
		return 0, 0, false
	}
	limits, err := readProc(t.taskPath("limits"))
	if err != nil {
		return 0, 0, false
	}
	limit, limited = softLimit(limits, "Max processes")
	if !limited {
		return 0, 0, false
	}
	pids, err := All()
	if err != nil {
		return 0, 0, false
	}
	for _, pid := range pids {
		b, err := readProc(fmt.Sprintf("/proc/%d/status", pid))
		if s := parseStatus(b); err == nil && s.RealUID == status.RealUID {
			have += uint64(max(0, s.Threads))
		}
	}
	return have, limit, true
}

// softLimit reads a line of /proc/PID/limits; false: there is no such limit.
func softLimit(limits []byte, name string) (uint64, bool) {
	for line := range strings.Lines(string(limits)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				n, err := strconv.ParseUint(f[0], 10, 64)
				return n, err == nil // "unlimited"
			}
		}
	}
	return 0, false
}

// SpareThreads is how many threads the target's control groups still allow
// (pids.max); MaxUint64: there is no limit, or it cannot be read.
func (t *Target) SpareThreads() uint64 {
	groups, err := t.ControlGroups()
	if err != nil {
		return math.MaxUint64
	}
	mount, group := pidsGroup(groups)
	if group == "" {
		return math.MaxUint64
	}
	root, err := os.OpenRoot(mount)
	if err != nil {
		return math.MaxUint64
	}
	defer root.Close()
	return spareThreads(root.FS(), group)
}

// pidsGroup says which control group counts the threads, and where such are
// mounted: that of version 1's controller, or else that of version 2. One that
// lies outside of our own root is not to be seen from here.
func pidsGroup(groups string) (mount, group string) {
	const root = "/sys/fs/cgroup"
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || strings.HasPrefix(f[2], "/..") || !path.IsAbs(f[2]) {
			continue
		}
		switch f[1] {
		case "pids":
			return root + "/pids", f[2]
		case "":
			mount, group = root, f[2]
		}
	}
	return mount, group
}

// spareThreads is the least that the group and those above it have left.
func spareThreads(mount fs.FS, group string) uint64 {
	spare := uint64(math.MaxUint64)
	for dir := path.Clean(strings.TrimLeft(group, "/")); ; dir = path.Dir(dir) {
		limit, err1 := number(mount, path.Join(dir, "pids.max"))
		used, err2 := number(mount, path.Join(dir, "pids.current"))
		if errors.Join(err1, err2) == nil {
			spare = min(spare, limit-min(limit, used))
		}
		if dir == "." {
			return spare
		}
	}
}

func number(mount fs.FS, name string) (uint64, error) {
	b, err := fs.ReadFile(mount, name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64) // "max" is none
}
