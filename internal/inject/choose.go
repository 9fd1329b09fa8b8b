package inject

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// class orders threads by how well a stop suits them, best first.
type class int

const (
	idleFutexWait class = iota // in a futex wait without time-out: every caller handles spurious wakeups
	untimedWait                // in another wait without time-out
	epollWait                  // in epoll_wait without time-out: PTRACE_INTERRUPT alone makes it return EINTR
	otherWait                  // in a wait with a time-out, or in a call that classify does not know
	running                    // on a CPU
	unusable
)

// classify returns the class of a thread by the syscall that it is in. It is pure.
func classify(c target.Syscall) class {
	const futexCmdMask, futexWait, futexWaitBitset = 0x7f, 0, 9
	const untimed = ^uint32(0) // -1 as an int
	a := c.Args
	switch {
	case c.Running:
		return running
	case c.Number < 0:
		return unusable // blocked in no syscall: a page fault
	}
	switch c.Number {
	case unix.SYS_FUTEX:
		if op := a[1] & futexCmdMask; a[3] == 0 && (op == futexWait || op == futexWaitBitset) {
			return idleFutexWait
		}
	case unix.SYS_READ, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_ACCEPT, unix.SYS_ACCEPT4,
		unix.SYS_PAUSE, unix.SYS_RT_SIGSUSPEND, unix.SYS_WAIT4, unix.SYS_WAITID:
		return untimedWait
	case unix.SYS_POLL:
		if uint32(a[2]) == untimed {
			return untimedWait
		}
	case unix.SYS_PPOLL:
		if a[2] == 0 {
			return untimedWait
		}
	case unix.SYS_SELECT, unix.SYS_PSELECT6:
		if a[4] == 0 {
			return untimedWait
		}
	case unix.SYS_RT_SIGTIMEDWAIT:
		if a[2] == 0 {
			return epollWait
		}
	case unix.SYS_EPOLL_WAIT, unix.SYS_EPOLL_PWAIT:
		if uint32(a[3]) == untimed {
			return epollWait
		}
	case unix.SYS_EPOLL_PWAIT2:
		if a[3] == 0 {
			return epollWait
		}
	case unix.SYS_VFORK, unix.SYS_CLONE, unix.SYS_CLONE3:
		return unusable // a vfork parent stops only when its child has exited
	case unix.SYS_CONNECT, unix.SYS_CLOSE:
		return unusable // interrupted, they return EINTR with half their work done (ptrace.RestartEINTR)
	}
	return otherWait
}

// classOf returns the class of a thread that was stopped in a syscall.
func classOf(r *ptrace.Regs) class {
	return classify(target.Syscall{
		Number: int(r.Orig_rax), Args: [6]uint64{r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9},
	})
}

// stillIn reports whether the thread is still in the class of wait for which it was
// chosen, perhaps seconds ago.
func (v *threadBorrower) stillIn(cand candidate) bool {
	call, err := v.t.Syscall(cand.tid)
	return err == nil && classify(call) == cand.class
}

// candidate is a thread that may be stopped.
type candidate struct {
	tid     int
	class   class
	cpu     int
	seccomp int // mode: 0 off, 1 strict, 2 filter
	nstid   int // its ID in the target's pid namespace
}

// The search for candidates ends with enough good ones, because a process may have
// 10,000 threads, or at its time limit, because a process can make reading each thread's
// status slow (65,536 groups).
const (
	enough         = 8
	candidateLimit = 2 * time.Second
)

// candidates lists threads to try, best first; the thread prefer comes first of all if
// it is still usable. It reads files in /proc and stops no thread.
func candidates(t *target.Target, maps []target.Map, prefer int) ([]candidate, error) {
	tids, err := t.Threads()
	if err != nil {
		return nil, err
	}
	// The leader last: a pause of the main thread is the most noticeable.
	if i := slices.Index(tids, t.PID); i >= 0 {
		tids = append(slices.Delete(tids, i, i+1), t.PID)
	}
	if i := slices.Index(tids, prefer); i >= 0 {
		tids = slices.Insert(slices.Delete(tids, i, i+1), 0, prefer)
	}
	var found []candidate
	good := 0
	deadline := time.Now().Add(candidateLimit)
	for _, tid := range tids {
		if time.Now().After(deadline) {
			break
		}
		c, ok := judge(t, maps, tid)
		if !ok {
			continue
		}
		found = append(found, c)
		if c.class == idleFutexWait {
			if good++; good == enough || tid == prefer {
				break
			}
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return int(a.class - b.class) })
	return found, nil
}

func judge(t *target.Target, maps []target.Map, tid int) (candidate, bool) {
	stat, err := t.ThreadStat(tid)
	if err != nil || (stat.State != 'S' && stat.State != 'R') {
		return candidate{}, false // D does not stop, T must stay stopped
	}
	call, err := t.Syscall(tid)
	if err != nil {
		return candidate{}, false
	}
	c := candidate{tid: tid, class: classify(call), cpu: stat.CPU}
	if c.class == unusable {
		return c, false
	}
	status, err := t.ThreadStatus(tid)
	if err != nil || status.Pending != 0 {
		return c, false
	}
	if n := len(status.NSPID); n > 0 {
		c.nstid = status.NSPID[n-1]
	}
	if c.seccomp = status.Seccomp; c.class == running {
		return c, true
	}
	if m, ok := target.FindMap(maps, call.SP); !ok || !stackLike(m, uint64(call.SP), 1) {
		return c, false
	}
	return c, true
}

// stackLike reports whether m can be a stack with the given number of bytes, and a page
// more, free below sp. Stacks are executable if any library asks for that, as some of
// ROCm's do (PT_GNU_STACK). A mapped file is no stack: its pages may be slow to come,
// and the tool must not wait for them while the thread is stopped.
func stackLike(m target.Map, sp, bytes uint64) bool {
	return m.Inode == 0 && (m.Perms == "rw-p" || m.Perms == "rwxp") && m.Path != "[heap]" && sp-uint64(m.Start) >= bytes+pageBytes
}
