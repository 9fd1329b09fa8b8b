package target

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Identity tells a process from a later one with the same pid, and from one
// with that pid in another pid namespace.
type Identity struct {
	PID          int
	StartTicks   uint64
	PIDNamespace uint64 // inode
}

// Self is the identity of this process.
func Self() (Identity, error) {
	ticks, err := StartTicks(os.Getpid())
	if err != nil {
		return Identity{}, err
	}
	ns, err := namespaceInode("/proc/self/ns/pid")
	return Identity{PID: os.Getpid(), StartTicks: ticks, PIDNamespace: ns}, err
}

// initPIDNamespace is the inode of the first pid namespace (<linux/proc_ns.h>,
// PROC_PID_INIT_INO): in any other one, pids are not the machine's.
const initPIDNamespace = 0xeffffffc

// InContainer reports whether this process lives in a pid namespace below the
// machine's own.
func InContainer() bool {
	me, err := Self()
	return err == nil && me.PIDNamespace != initPIDNamespace
}

// CheckProc refuses a /proc of another pid namespace, an outer one say: its
// numbers are not those that system calls take.
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

// StartTicks reads when a process began (field 22 of /proc/PID/stat).
func StartTicks(pid int) (uint64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("pid %d: %w", pid, ErrGone)
	}
	s, err := parseStat(b)
	return s.StartTicks, err
}

// Lives reports whether the process that began then still runs. One that has
// exited and waits for its parent does not.
func Lives(pid int, startTicks uint64) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	s, err := parseStat(b)
	return err == nil && s.State != 'Z' && s.State != 'X' && (startTicks == 0 || s.StartTicks == startTicks)
}

// WaitExit waits until the process has exited, at most for timeout.
func (t *Target) WaitExit(timeout time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(t.pidfd.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(timeout.Milliseconds()))
	return err == nil && n > 0
}
