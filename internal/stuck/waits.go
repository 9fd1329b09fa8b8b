package stuck

import (
	"encoding/binary"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// wait is what /proc tells about a thread's wait.
type wait struct {
	state byte
	call  target.Syscall
}

// same reports whether two looks at a thread have found it in the same wait. A thread that runs has no
// place that could be compared.
func (w wait) same(other wait) bool {
	return w == other && !w.call.Running && w.state != 'R'
}

// waitsOf reads what each thread of a process waits for.
func waitsOf(t *target.Target) map[int]wait {
	waits := map[int]wait{}
	tids, _ := t.Threads()
	for _, tid := range tids {
		if w, err := waitOf(t, tid); err == nil {
			waits[tid] = w
		}
	}
	return waits
}

func waitOf(t *target.Target, tid int) (w wait, err error) {
	stat, err := t.ThreadStat(tid)
	if err != nil {
		return w, err
	}
	call, err := t.Syscall(tid)
	return wait{stat.State, call}, err
}

// callNames has the system calls in which threads wait most.
var callNames = map[int]string{
	unix.SYS_FUTEX: "futex", unix.SYS_IOCTL: "ioctl", unix.SYS_READ: "read", unix.SYS_WRITE: "write", unix.SYS_POLL: "poll",
	unix.SYS_PPOLL: "ppoll", unix.SYS_SELECT: "select", unix.SYS_PSELECT6: "pselect6", unix.SYS_EPOLL_WAIT: "epoll_wait",
	unix.SYS_EPOLL_PWAIT: "epoll_pwait", unix.SYS_NANOSLEEP: "nanosleep", unix.SYS_CLOCK_NANOSLEEP: "clock_nanosleep",
	unix.SYS_RECVMSG: "recvmsg", unix.SYS_RECVFROM: "recvfrom", unix.SYS_ACCEPT: "accept", unix.SYS_ACCEPT4: "accept4",
	unix.SYS_WAIT4: "wait4", unix.SYS_WAITID: "waitid", unix.SYS_PAUSE: "pause", unix.SYS_RT_SIGTIMEDWAIT: "rt_sigtimedwait",
	unix.SYS_CONNECT: "connect", unix.SYS_SENDMSG: "sendmsg", unix.SYS_SENDTO: "sendto", unix.SYS_RT_SIGSUSPEND: "rt_sigsuspend",
	unix.SYS_IO_GETEVENTS: "io_getevents", unix.SYS_IO_URING_ENTER: "io_uring_enter", unix.SYS_SCHED_YIELD: "sched_yield",
	unix.SYS_MUNMAP: "munmap", unix.SYS_MMAP: "mmap", unix.SYS_FSYNC: "fsync", unix.SYS_RESTART_SYSCALL: "restart_syscall",
}

// callName returns the name of a system call; "" if the thread is in none.
func callName(c target.Syscall) string {
	switch {
	case c.Running || c.Number < 0:
		return ""
	case callNames[c.Number] != "":
		return callNames[c.Number]
	}
	return fmt.Sprintf("system call %d", c.Number)
}

// mutexHolder returns the thread, by its id in the process's own pid namespace, that holds the mutex whose lock word
// is a futex, as glibc notes it; 0: none. Whether the futex is a mutex at all is for the caller to know.
func mutexHolder(mem io.ReaderAt, futex uint64) int {
	var b [12]byte // __lock, __count, __owner of struct __pthread_mutex_s
	if futex%4 != 0 || read(mem, futex, b[:]) != nil || binary.LittleEndian.Uint32(b[0:]) == 0 {
		return 0
	}
	return int(binary.LittleEndian.Uint32(b[8:]))
}

// waitEvents is AMDKFD_IOC_WAIT_EVENTS, with which a thread waits for the driver's events.
const waitEvents = 0xc0184b0c

// driverEvents returns the events that a thread waits for in the driver.
func driverEvents(mem io.ReaderAt, c target.Syscall) (events []uint32) {
	if c.Number != unix.SYS_IOCTL || c.Args[1] != waitEvents {
		return nil
	}
	const (
		argsBytes  = 24 // struct kfd_ioctl_wait_events_args
		eventBytes = 48 // struct kfd_event_data
		idOffset   = 40
		eventsMax  = 4096
	)
	var args [argsBytes]byte
	if read(mem, c.Args[2], args[:]) != nil {
		return nil
	}
	list, n := binary.LittleEndian.Uint64(args[0:]), binary.LittleEndian.Uint32(args[8:])
	if n > eventsMax {
		return nil
	}
	b := make([]byte, n*eventBytes)
	if read(mem, list, b) != nil {
		return nil
	}
	for ; len(b) > 0; b = b[eventBytes:] {
		events = append(events, binary.LittleEndian.Uint32(b[idOffset:]))
	}
	return events
}
