package target

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Kin is a process below another one.
type Kin struct {
	PID        int
	Parent     int
	StartTicks uint64
	Comm       string
}

// Families are the processes here, by their pids.
type Families map[int]Kin

// AllFamilies reads who is whose parent. A child whose parent has ended belongs to
// nobody's family any more.
func AllFamilies() (Families, error) {
	pids, err := All()
	if err != nil {
		return nil, err
	}
	f := Families{}
	for _, pid := range pids {
		if k, ok := KinOf(pid); ok {
			f[pid] = k
		}
	}
	return f, nil
}

// KinOf reads one process's place; false: it has ended.
func KinOf(pid int) (Kin, bool) {
	b, err := readProc("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Kin{}, false
	}
	s, err := parseStat(b)
	return Kin{pid, s.PPID, s.StartTicks, s.Comm}, err == nil && s.State != 'Z' && s.State != 'X'
}

// Descendants lists the processes below pid, parents before their children.
func Descendants(pid int) ([]Kin, error) {
	f, err := AllFamilies()
	return f.Below(pid), err
}

// Below lists the processes below pid, parents before their children. Pids that
// were used anew while we looked could make circles: each is met once.
func (f Families) Below(pid int) []Kin {
	children := map[int][]Kin{}
	for _, id := range slices.Sorted(maps.Keys(f)) {
		children[f[id].Parent] = append(children[f[id].Parent], f[id])
	}
	var found []Kin
	met := map[int]bool{pid: true}
	for level := []int{pid}; len(level) > 0; {
		var next []int
		for _, parent := range level {
			for _, k := range children[parent] {
				if !met[k.PID] {
					met[k.PID] = true
					found, next = append(found, k), append(next, k.PID)
				}
			}
		}
		level = next
	}
	return found
}

// Above lists the pids above pid, the nearest first.
func (f Families) Above(pid int) []int {
	var above []int
	for k, ok := f[pid]; ok && k.Parent != 0 && !slices.Contains(above, k.Parent); k, ok = f[k.Parent] {
		above = append(above, k.Parent)
	}
	return above
}

// comparedMost bounds the descriptors of the driver that are compared.
const comparedMost = 16

// InheritedDriver says whether the target's descriptors of the GPU driver are the
// very ones that other has open, too: it is a forked copy, and the driver serves
// only who has opened it. Where the kernel does not tell (kcmp(2)), it says no.
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
			return false // one of its own
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

// driverDescriptors are those of /dev/kfd.
func (t *Target) driverDescriptors() ([]int, error) {
	names, err := t.descriptors()
	if err != nil {
		return nil, err
	}
	var fds []int
	for _, n := range names {
		fd, err := strconv.Atoi(n)
		if err != nil || len(fds) == comparedMost {
			continue
		}
		if link, err := os.Readlink(t.taskPath("fd/" + n)); err == nil && isDriver(link) {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

func isDriver(link string) bool { return link == kfdName || strings.HasPrefix(link, simulatedKFD) }
