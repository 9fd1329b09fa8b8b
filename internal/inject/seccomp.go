package inject

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// SeccompError means that a seccomp filter of the target would not allow an injection,
// or could not be read. It wraps target.ErrSeccomp.
type SeccompError struct {
	PID, TID int
	Call     string // the refused call; "" if the filters could not be read
	Action   string // what the filter would do
	Err      error  // why the filters could not be read
}

func (e *SeccompError) Error() string {
	if e.Call == "" {
		return fmt.Sprintf("pid %d: %v: %v", e.PID, target.ErrSeccomp, e.Err)
	}
	return fmt.Sprintf("pid %d: %v: thread %d may not call %s (the filter would %s)",
		e.PID, target.ErrSeccomp, e.TID, e.Call, e.Action)
}

func (e *SeccompError) Unwrap() []error { return []error{target.ErrSeccomp, e.Err} }

// need is a syscall that the injection, the dynamic loader or the payload's threads make
// in the target. If mayRefuse is set, a filter may refuse it, but must not kill.
type need struct {
	name      string
	nr        uint64
	args      [6]uint64
	mayRefuse bool
}

var needs = []need{
	{name: "mmap (executable)", nr: unix.SYS_MMAP, args: [6]uint64{
		1 << 40, codeBytes, unix.PROT_READ | unix.PROT_EXEC,
		unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED_NOREPLACE, 0xffffffffffffffff, 0,
	}},
	{name: "mmap (shared)", nr: unix.SYS_MMAP, args: [6]uint64{0, bootSharedSize, unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED, 100, 0}},
	{name: "munmap", nr: unix.SYS_MUNMAP},
	{name: "mprotect", nr: unix.SYS_MPROTECT, args: [6]uint64{1 << 40, codeBytes, unix.PROT_READ | unix.PROT_EXEC}},
	{name: "rt_sigreturn", nr: unix.SYS_RT_SIGRETURN},
	{name: "clone", nr: unix.SYS_CLONE, args: [6]uint64{cloneFlags}},
	{name: "rt_sigprocmask", nr: unix.SYS_RT_SIGPROCMASK},
	{name: "futex", nr: unix.SYS_FUTEX},
	{name: "memfd_create", nr: unix.SYS_MEMFD_CREATE},
	{name: "ftruncate", nr: unix.SYS_FTRUNCATE},
	{name: "fcntl", nr: unix.SYS_FCNTL, args: [6]uint64{100, unix.F_ADD_SEALS}},
	{name: "openat", nr: unix.SYS_OPENAT},
	{name: "read", nr: unix.SYS_READ},
	{name: "close", nr: unix.SYS_CLOSE},
	{name: "gettid", nr: unix.SYS_GETTID},
	{name: "exit", nr: unix.SYS_EXIT},
	// The payload makes these to wait, and to see where the threads are before it switches queues.
	{name: "nanosleep", nr: unix.SYS_NANOSLEEP},
	{name: "clock_gettime", nr: unix.SYS_CLOCK_GETTIME},
	{name: "getpid", nr: unix.SYS_GETPID},
	{name: "getdents64", nr: unix.SYS_GETDENTS64},
	{name: "readlinkat", nr: unix.SYS_READLINKAT},
	{name: "newfstatat", nr: unix.SYS_NEWFSTATAT},
	{name: "rt_sigaction", nr: unix.SYS_RT_SIGACTION},
	{name: "process_vm_readv", nr: unix.SYS_PROCESS_VM_READV, mayRefuse: true}, // if refused, the tool stops more threads
	{name: "sched_yield", nr: unix.SYS_SCHED_YIELD, mayRefuse: true},
	{name: "sched_getaffinity", nr: unix.SYS_SCHED_GETAFFINITY, mayRefuse: true},
	{name: "sched_setaffinity", nr: unix.SYS_SCHED_SETAFFINITY, mayRefuse: true},
	{name: "sched_getscheduler", nr: unix.SYS_SCHED_GETSCHEDULER, mayRefuse: true},
	{name: "sched_setscheduler", nr: unix.SYS_SCHED_SETSCHEDULER, mayRefuse: true},
	{name: "sched_getattr", nr: unix.SYS_SCHED_GETATTR, mayRefuse: true},
	{name: "sched_setattr", nr: unix.SYS_SCHED_SETATTR, mayRefuse: true},
	{name: "madvise", nr: unix.SYS_MADVISE, mayRefuse: true},
	{name: "munlock", nr: unix.SYS_MUNLOCK, mayRefuse: true}, // if the process locks its mappings (mlockall)
	{name: "prctl", nr: unix.SYS_PRCTL, args: [6]uint64{unix.PR_SET_NAME}, mayRefuse: true},
	{name: "clone3", nr: unix.SYS_CLONE3, mayRefuse: true},
	{name: "rseq", nr: unix.SYS_RSEQ, mayRefuse: true},
	{name: "set_robust_list", nr: unix.SYS_SET_ROBUST_LIST, mayRefuse: true},
	{name: "pread64", nr: unix.SYS_PREAD64, mayRefuse: true}, // some versions of glibc make these
	{name: "fstat", nr: unix.SYS_FSTAT, mayRefuse: true},
	{name: "brk", nr: unix.SYS_BRK, mayRefuse: true},
	{name: "getrandom", nr: unix.SYS_GETRANDOM, mayRefuse: true},
	{name: "ioctl", nr: unix.SYS_IOCTL}, // the HSA runtime makes these for the payload's signals
	{name: "get_mempolicy", nr: unix.SYS_GET_MEMPOLICY, mayRefuse: true},
	{name: "mbind", nr: unix.SYS_MBIND, mayRefuse: true},
	{name: "restart_syscall", nr: unix.SYS_RESTART_SYSCALL}, // the kernel makes it after a stop
}

// Calls returns the sorted numbers of all system calls that the tool needs in the target.
func Calls() []uint64 {
	var numbers []uint64
	for _, n := range needs {
		numbers = append(numbers, n.nr)
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// filtered checks a thread's seccomp filters against every system call that the thread,
// and the threads that inherit its filters, will make. A filter can kill the process, so
// filtered refuses filters that it cannot read, unless Request.UnreadFilters is set.
func (v *threadBorrower) filtered(cand candidate) error {
	switch cand.seccomp {
	case 0:
		return nil
	case 1:
		return &SeccompError{PID: v.t.PID, TID: cand.tid, Err: errors.New("strict mode")}
	}
	if err, known := v.filters[cand.tid]; known {
		return err
	}
	filters, err := (*ptrace.Filters)(nil), ptrace.ErrFilterHidden
	if MayReadFilters() {
		filters, err = v.readFilters(cand)
	}
	switch {
	case errors.Is(err, ptrace.ErrDenied):
		return v.denied(cand.tid, err)
	case errors.Is(err, ptrace.ErrFilterHidden):
		if v.unreadFilters {
			return nil
		}
		return &SeccompError{PID: v.t.PID, TID: cand.tid, Err: err}
	case err != nil:
		return err
	}
	if v.filters == nil {
		v.filters = make(map[int]error)
	}
	v.filters[cand.tid] = judgeFilters(v.t.PID, cand.tid, filters.Programs())
	return v.filters[cand.tid]
}

// readFilters stops the thread and reads its filters.
func (v *threadBorrower) readFilters(cand candidate) (*ptrace.Filters, error) {
	if !v.stillIn(cand) {
		return nil, notWaiting
	}
	filters, p := &ptrace.Filters{}, Pause{TID: cand.tid, Stop: "seccomp"}
	err := v.tr.Do(func() error {
		c := &ptrace.Tracee{PID: v.t.PID, TID: cand.tid}
		return ptrace.Quiet(cand.cpu, func() error {
			if err := c.Seize(); err != nil {
				return err
			}
			if err := at(PointFilterSeized); err != nil {
				return errors.Join(err, unseize(c))
			}
			begin := time.Now()
			_, err := c.Interrupt(v.patienceFor(cand))
			seen := time.Now()
			if err != nil {
				return err
			}
			err = errors.Join(readInStop(c, filters), c.Release())
			p.Began, p.Time, p.Stopped = begin, time.Since(begin), time.Since(seen)
			return err
		})
	})
	if p.Time > 0 {
		v.pauses = append(v.pauses, p)
	}
	return filters, err
}

// readInStop reads the filters of the stopped thread, and lets the kernel continue the
// thread's wait by restart_syscall(2) if they allow that.
func readInStop(c *ptrace.Tracee, filters *ptrace.Filters) error {
	allow, err := c.AvoidRestart()
	if err == nil {
		err = at(PointFilterStopped)
	}
	if err == nil {
		err = c.ReadFilters(filters)
	}
	if err == nil && allow != nil && filters.AllowRestart() {
		err = allow()
	}
	return err
}

// judgeFilters returns a SeccompError for the first need that the filters do not allow,
// or nil. It is pure.
func judgeFilters(pid, tid int, filters []ptrace.Program) error {
	for _, n := range needs {
		a := ptrace.Decide(filters, n.nr, n.args)
		if a.Allows() || (n.mayRefuse && a.Refuses()) {
			continue
		}
		return &SeccompError{PID: pid, TID: tid, Call: n.name, Action: a.String()}
	}
	return nil
}
