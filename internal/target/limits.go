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

// SpareMemory returns how many bytes of address space the target may still map
// (RLIMIT_AS); MaxUint64 if there is no limit or the tool cannot read it.
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

// nprocExempt are the capabilities that exempt from RLIMIT_NPROC (clone(2), EAGAIN).
const nprocExempt = 1<<unix.CAP_SYS_RESOURCE | 1<<unix.CAP_SYS_ADMIN

// UserThreads returns how many threads the target's user has, as far as the tool can
// see them, and how many it may have (RLIMIT_NPROC); limited is false if there is no
// limit. The kernel counts per user namespace, and does not publish its count.
func (t *Target) UserThreads() (have, limit uint64, limited bool) {
	status, err := t.ThreadStatus(t.LiveThread())
	if err != nil || status.RealUID <= 0 || status.Capabilities&nprocExempt != 0 {
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

// softLimit reads one line of /proc/PID/limits; false if there is no such limit.
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

// SpareThreads returns how many more threads the target's control groups allow
// (pids.max); MaxUint64 if there is no limit or the tool cannot read it.
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

// pidsGroup returns the control group that counts the target's threads, and the mount
// point of its hierarchy: the group of the version 1 controller if there is one,
// otherwise the version 2 group. A group outside of the tool's own root is not visible.
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

// spareThreads returns the smallest remainder of the group and its ancestors.
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
