package target

import (
	"os"
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

// Descendants lists the processes below pid, parents before their children. A
// child whose parent has ended belongs to nobody's family any more.
func Descendants(pid int) ([]Kin, error) {
	pids, err := All()
	if err != nil {
		return nil, err
	}
	children := map[int][]Kin{}
	for _, p := range pids {
		b, err := readProc("/proc/" + strconv.Itoa(p) + "/stat")
		if err != nil {
			continue // it has ended
		}
		if s, err := parseStat(b); err == nil && s.State != 'Z' && s.State != 'X' {
			children[s.PPID] = append(children[s.PPID], Kin{p, s.PPID, s.StartTicks, s.Comm})
		}
	}
	return below(pid, children), nil
}

// below walks down. Pids that were used anew while we looked could make circles:
// each is met once.
func below(pid int, children map[int][]Kin) []Kin {
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
