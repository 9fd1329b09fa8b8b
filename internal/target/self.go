package target

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Identity distinguishes a process from a later one with the same pid, and from one
// with that pid in another pid namespace.
type Identity struct {
	PID          int
	StartTicks   uint64
	PIDNamespace uint64 // inode
}

// Self returns the identity of this process.
func Self() (Identity, error) {
	ticks, err := StartTicks(os.Getpid())
	if err != nil {
		return Identity{}, err
	}
	ns, err := namespaceInode("/proc/self/ns/pid")
	return Identity{PID: os.Getpid(), StartTicks: ticks, PIDNamespace: ns}, err
}

// initPIDNamespace is the inode of the initial pid namespace (<linux/proc_ns.h>,
// PROC_PID_INIT_INO): in any other one, pids differ from the host's.
const initPIDNamespace = 0xeffffffc

// InContainer reports whether this process is in a pid namespace other than the initial
// one.
func InContainer() bool {
	me, err := Self()
	return err == nil && me.PIDNamespace != initPIDNamespace
}

// CheckProc fails if /proc belongs to another pid namespace, such as an outer one: system
// calls do not accept its pids.
func CheckProc() error {
	b, err := readProc("/proc/self/status")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProc, err)
	}
	if s := parseStatus(b); len(s.NSPID) > 1 || s.TGID != os.Getpid() {
		return ErrProc
	}
	return nil
}

// StartTicks reads the start time of a process, in clock ticks since boot (field 22 of
// /proc/PID/stat).
func StartTicks(pid int) (uint64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("pid %d: %w", pid, ErrGone)
	}
	s, err := parseStat(b)
	return s.StartTicks, err
}

// Lives reports whether the process pid that started at startTicks (0: at any time) still
// runs. A zombie does not.
func Lives(pid int, startTicks uint64) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	s, err := parseStat(b)
	return err == nil && s.State != 'Z' && s.State != 'X' && (startTicks == 0 || s.StartTicks == startTicks)
}

// WaitExit waits at most for timeout, and reports whether the process has exited.
func (t *Target) WaitExit(timeout time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(t.pidfd.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(timeout.Milliseconds()))
	return err == nil && n > 0
}
