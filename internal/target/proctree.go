package target

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ProcInfo describes a process and its parent.
type ProcInfo struct {
	PID        int
	Parent     int
	StartTicks uint64
	Comm       string
}

// ProcTree maps the pid of each visible process to its ProcInfo.
type ProcTree map[int]ProcInfo

// ReadProcTree reads the parents of all processes. A child whose parent has ended is no
// descendant of that parent's ancestors any more.
func ReadProcTree() (ProcTree, error) {
	pids, err := All()
	if err != nil {
		return nil, err
	}
	f := ProcTree{}
	for _, pid := range pids {
		if k, ok := ProcInfoOf(pid); ok {
			f[pid] = k
		}
	}
	return f, nil
}

// ProcInfoOf reads the ProcInfo of one process; false if it has ended.
func ProcInfoOf(pid int) (ProcInfo, bool) {
	b, err := readProc("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ProcInfo{}, false
	}
	s, err := parseStat(b)
	return ProcInfo{pid, s.PPID, s.StartTicks, s.Comm}, err == nil && s.State != 'Z' && s.State != 'X'
}

// Descendants lists the processes below pid, parents before their children.
func Descendants(pid int) ([]ProcInfo, error) {
	f, err := ReadProcTree()
	return f.Descendants(pid), err
}

// Descendants lists the processes below pid, parents before their children. A pid that
// the kernel reused during the reading can make a cycle, so it lists each process once.
func (f ProcTree) Descendants(pid int) []ProcInfo {
	children := map[int][]ProcInfo{}
	for _, id := range slices.Sorted(maps.Keys(f)) {
		children[f[id].Parent] = append(children[f[id].Parent], f[id])
	}
	var found []ProcInfo
	seen := map[int]bool{pid: true}
	for level := []int{pid}; len(level) > 0; {
		var next []int
		for _, parent := range level {
			for _, k := range children[parent] {
				if !seen[k.PID] {
					seen[k.PID] = true
					found, next = append(found, k), append(next, k.PID)
				}
			}
		}
		level = next
	}
	return found
}

// Ancestors lists the pids of the ancestors of pid, the nearest first.
func (f ProcTree) Ancestors(pid int) []int {
	var above []int
	for k, ok := f[pid]; ok && k.Parent != 0 && !slices.Contains(above, k.Parent); k, ok = f[k.Parent] {
		above = append(above, k.Parent)
	}
	return above
}

// comparedMax limits the driver descriptors that are compared.
const comparedMax = 16

// InheritedDriver reports whether all of the target's open files of the GPU driver are
// shared with other (kcmp(2)): then the target is a forked copy, and the driver serves
// only the process that opened the file. It returns false if the kernel refuses kcmp.
func (t *Target) InheritedDriver(other *Target) bool {
	theirs, err := other.driverDescriptors()
	if err != nil {
		return false
	}
	own, err := t.driverDescriptors()
	if err != nil || len(own) == 0 {
		return false
	}
	for _, fd := range own {
		if !t.hasSameFile(fd, other, theirs) {
			return false // the target opened this one itself
		}
	}
	return true
}

func (t *Target) hasSameFile(fd int, other *Target, theirs []int) bool {
	const kcmpFile = 0 // <linux/kcmp.h>
	for _, their := range theirs {
		order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(t.PID), uintptr(other.PID), kcmpFile, uintptr(fd), uintptr(their), 0)
		if errno == 0 && order == 0 {
			return true
		}
	}
	return false
}

// driverDescriptors lists the target's descriptors of /dev/kfd.
func (t *Target) driverDescriptors() ([]int, error) {
	names, err := t.descriptors()
	if err != nil {
		return nil, err
	}
	var fds []int
	for _, n := range names {
		fd, err := strconv.Atoi(n)
		if err != nil || len(fds) == comparedMax {
			continue
		}
		if link, err := os.Readlink(t.taskPath("fd/" + n)); err == nil && isDriver(link) {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

func isDriver(link string) bool { return link == kfdName || strings.HasPrefix(link, simulatedKFD) }
