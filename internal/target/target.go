// Package target is read-only knowledge about another process: identity,
// mappings, symbols, threads, namespaces, and what could stand in the way of
// an attach. It never stops anything.
package target

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/moby/sys/capability"
	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/privilege"
)

// Target is one process, told from a later one with the same pid by its
// pidfd, and from another program by its memory descriptor.
type Target struct {
	PID        int
	Parent     int
	StartTicks uint64 // since boot
	Comm       string
	NSPID      []int // the pid from our namespace down to its own
	UID        int

	tracer int    // a thread's id, 0: none
	stack  uint64 // where the program's stack begins: another one has it elsewhere
	pidfd  *os.File
	dir    *os.File // /proc/PID: of this process even when its number is another's
	stat   *os.File // open: they can be read without privileges from then on
	statm  *os.File
	mem    *os.File // of the address space at Open; nil for a glimpse
	space  *os.File // of the same: reads 0 bytes after an exec, see inSpace; nil where the kernel has none

	live atomic.Int64 // a thread whose /proc files work: the leader may be a zombie

	spent atomic.Int64 // of readsMax
	names threadIDs
}

// Open takes hold of pid. It refuses what cannot be attached to whatever
// happens: zombies, kernel threads, stopped or traced processes.
func Open(pid int) (*Target, error) {
	t, err := OpenLight(pid)
	if err != nil {
		return nil, err
	}
	if err = t.settle(); err == nil {
		err = t.enter()
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// OpenLight takes hold of pid as far as listing it needs: its memory stays shut,
// and it may be stopped or traced.
func OpenLight(pid int) (*Target, error) {
	if err := CheckProc(); err != nil {
		return nil, fmt.Errorf("pid %d: %w", pid, err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) { // EINVAL: a thread, not a process
			return nil, fmt.Errorf("pid %d: %w", pid, ErrGone)
		}
		return nil, fmt.Errorf("pidfd of pid %d: %w", pid, err)
	}
	t := &Target{PID: pid, pidfd: os.NewFile(uintptr(fd), "pidfd")}
	if err = t.openDir(); err == nil {
		err = t.identify()
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// openDir takes hold of /proc/PID. What is looked up beneath it belongs to
// that process or is not there, whoever has its number by then.
func (t *Target) openDir() error {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d", t.PID), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return t.explain("look it up in /proc", err)
	}
	t.dir = os.NewFile(uintptr(fd), "/proc/PID")
	for name, f := range map[string]**os.File{"stat": &t.stat, "statm": &t.statm} {
		if *f, err = os.Open(t.path(name)); err != nil {
			return t.explain("read the state", err)
		}
	}
	// As long as it is not reaped, the number is its own, and was just now.
	if unix.PidfdSendSignal(int(t.pidfd.Fd()), 0, nil, 0) == unix.ESRCH {
		return fmt.Errorf("pid %d: %w", t.PID, ErrGone)
	}
	return nil
}

// path leads to a file of the target's directory in /proc.
func (t *Target) path(name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", t.dir.Fd(), name)
}

func (t *Target) threadPath(tid int, name string) string {
	return t.path(fmt.Sprintf("task/%d/%s", tid, name))
}

func (t *Target) identify() error {
	b, err := readProc(t.path("stat"))
	if err != nil {
		return t.explain("read the state", err)
	}
	stat, err := parseStat(b)
	if err != nil {
		return fmt.Errorf("pid %d: %w", t.PID, err)
	}
	t.Parent, t.StartTicks, t.Comm, t.stack = stat.PPID, stat.StartTicks, stat.Comm, stat.StackStart
	if stat.Flags&flagKernelThread != 0 {
		return fmt.Errorf("pid %d (%s): %w", t.PID, t.Comm, ErrKernel)
	}
	live, err := t.liveThread(stat.State)
	if err != nil {
		return err
	}
	t.live.Store(int64(live))
	status, err := t.ThreadStatus(live)
	if err != nil {
		return err
	}
	if len(status.NSPID) == 0 {
		return fmt.Errorf("pid %d: no NSpid in its status: %w", t.PID, ErrMalformed)
	}
	t.UID, t.tracer = status.UID, status.TracerPID
	if leader, err := t.ThreadStatus(t.PID); err != nil {
		return err
	} else if t.NSPID = leader.NSPID; len(t.NSPID) == 0 {
		t.NSPID = []int{t.PID}
	}
	return nil
}

// execPatience is how long an exec may take once it has thrown away the old program.
const execPatience = 2 * time.Second

// settle waits for an exec to be through that has begun to build the process anew:
// neither its name nor what its memory shows is the new program's before.
func (t *Target) settle() error {
	for deadline := time.Now().Add(execPatience); ; time.Sleep(time.Millisecond) {
		stat, err := t.ThreadStat(t.LiveThread())
		switch {
		case err != nil:
			return err
		case stat.CodeStart != 0 || stat.Flags&flagExiting != 0:
			return t.identify()
		case time.Now().After(deadline):
			return fmt.Errorf("pid %d: it has not finished its exec: %w", t.PID, ErrExec)
		}
	}
}

// enter opens the memory of a process that may be attached to.
func (t *Target) enter() error {
	if t.tracer != 0 {
		return t.Traced(t.tracer)
	}
	if stat, err := t.ThreadStat(t.LiveThread()); err == nil && (stat.State == 'T' || stat.State == 't') {
		return fmt.Errorf("pid %d: %w", t.PID, ErrStopped)
	}
	// Opened once, used throughout: the descriptor stays with this address
	// space, so that an exec is noticed.
	var err error
	if t.mem, err = os.OpenFile(t.taskPath("mem"), os.O_RDWR, 0); err != nil {
		return t.explain("open the memory", err)
	}
	if t.space, err = os.Open(t.taskPath("pagemap")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return t.explain("open the page map", err)
	}
	return t.CheckIdentity()
}

// liveThread returns the leader, or a sibling if the leader has exited.
func (t *Target) liveThread(leader byte) (int, error) {
	if leader != 'Z' && leader != 'X' {
		return t.PID, nil
	}
	tids, err := t.Threads()
	if err != nil {
		return 0, err
	}
	for _, tid := range tids {
		if s, err := t.ThreadStat(tid); err == nil && s.State != 'Z' && s.State != 'X' {
			return tid, nil
		}
	}
	return 0, fmt.Errorf("pid %d: %w", t.PID, ErrZombie)
}

// Traced names the process of the thread that traces the target.
func (t *Target) Traced(tracer int) error {
	e := &TracedError{PID: t.PID, Tracer: tracer}
	// TracerPid is the id of the tracing thread: name its process.
	if b, err := readProc(fmt.Sprintf("/proc/%d/status", tracer)); err == nil {
		if s := parseStatus(b); s.TGID != 0 {
			e.Tracer = s.TGID
		}
	}
	if b, err := readProc(fmt.Sprintf("/proc/%d/comm", e.Tracer)); err == nil {
		e.Name = strings.TrimSpace(string(b))
	}
	return e
}

// Close lets go of the target.
func (t *Target) Close() {
	for _, f := range []*os.File{t.space, t.mem, t.statm, t.stat, t.dir, t.pidfd} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// Alive reports whether the process has not exited.
func (t *Target) Alive() bool {
	fds := []unix.PollFd{{Fd: int32(t.pidfd.Fd()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return err == nil && n == 0
		}
	}
}

// CheckIdentity returns nil while pid is the process that was opened, running the
// program that it ran then; otherwise ErrGone or ErrExec.
func (t *Target) CheckIdentity() error {
	if !t.Alive() {
		return fmt.Errorf("pid %d: %w", t.PID, ErrGone)
	}
	b, err := readAgain(t.stat)
	if err != nil {
		return t.explain("read the state", err)
	}
	s, err := parseStat(b)
	if err != nil || s.StartTicks != t.StartTicks {
		return fmt.Errorf("pid %d: %w", t.PID, ErrGone)
	}
	// Who shares its memory, a vfork child say, keeps that alive after an exec.
	if s.StackStart != 0 && t.stack != 0 && s.StackStart != t.stack {
		return fmt.Errorf("pid %d: %w", t.PID, ErrExec)
	}
	if t.inSpace() {
		return nil
	}
	return t.left()
}

// inSpace reports whether the address space that was opened has a process. The page map
// of one that was left, by exec or exit, reads 0 bytes; any other refuses less than an
// entry, before it takes a lock. A byte of the memory tells as much: but where none is
// mapped the kernel (since 6.5) looks for a stack to expand, and its threads' page faults
// would wait behind us. It is for kernels without page maps (CONFIG_PROC_PAGE_MONITOR).
func (t *Target) inSpace() bool {
	one := make([]byte, 1)
	var err error
	if t.space != nil {
		_, err = t.space.ReadAt(one, 0)
	} else {
		_, err = t.mem.ReadAt(one, int64(t.stack))
	}
	return !errors.Is(err, io.EOF)
}

// Leaving reports whether the main thread has left its address space: it has ended,
// alone or with all the others. These may still be on their way, and the process alive.
func (t *Target) Leaving() bool {
	size, err := readAgain(t.statm)
	return err != nil || bytes.HasPrefix(size, []byte("0 "))
}

// left tells an exec from an exit, both of which leave the address space: after
// an exec there is another one, after an exit the pidfd says so, soon.
func (t *Target) left() error {
	for range 50 {
		if !t.Alive() {
			break
		}
		if !t.Leaving() {
			return fmt.Errorf("pid %d: %w", t.PID, ErrExec)
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("pid %d: %w", t.PID, ErrGone)
}

// staying is how many looks, one after the other, show a process that is not on its way
// out: a thread that has taken its SIGKILL and has not begun to end shows neither.
const staying = 3

// WaitGone is Same, once a process that is on its way out has left, at the
// latest after patience: its threads end one by one, and their memory last.
func (t *Target) WaitGone(patience time.Duration) error {
	looks := 0
	for deadline := time.Now().Add(patience); looks < staying; time.Sleep(time.Millisecond) {
		if err := t.CheckIdentity(); err != nil || time.Now().After(deadline) {
			return err
		}
		if looks++; t.ending(deadline) {
			looks = 0
		}
	}
	return nil
}

// ending: a thread is being killed, as at an exit or exec all others are, or
// the one that we look through is on its way out. That one is looked at last: when it
// was being killed a moment ago, it may be on its way by now. What is not seen until the
// deadline is not so.
func (t *Target) ending(deadline time.Time) bool {
	tids, err := t.Threads()
	if err != nil {
		return true
	}
	for _, tid := range tids {
		if time.Now().After(deadline) {
			break
		}
		if s, err := t.ThreadStatus(tid); err == nil && s.Pending&killed != 0 {
			return true
		}
	}
	s, err := t.ThreadStat(t.LiveThread())
	return err != nil || s.Flags&flagExiting != 0
}

// LiveThread is a thread whose files in /proc can be read.
func (t *Target) LiveThread() int { return int(t.live.Load()) }

// another finds a new one, where there is one: the last may have ended.
func (t *Target) another() bool {
	leader, err := t.ThreadStat(t.PID)
	if err != nil || !t.Alive() {
		return false
	}
	tid, err := t.liveThread(leader.State)
	return err == nil && t.live.Swap(int64(tid)) != int64(tid)
}

func (t *Target) taskPath(name string) string { return t.threadPath(t.LiveThread(), name) }

// Root is a path that leads to the target's root directory.
func (t *Target) Root() string { return t.taskPath("root") }

// explain adds the facts that bear on err. It guesses nothing.
func (t *Target) explain(op string, err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err // the path is by number, and says nothing
	}
	switch {
	case isESRCH(err) || errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s of pid %d: %w", op, t.PID, ErrGone)
	case errors.Is(err, os.ErrPermission):
		return t.Denied(op, err)
	}
	return fmt.Errorf("%s of pid %d: %w", op, t.PID, err)
}

// Denied gathers what bears on the kernel's refusal err of op.
func (t *Target) Denied(op string, err error) error {
	e := &DeniedError{PID: t.PID, Op: op, Err: err, PtraceScope: PtraceScope(), UID: os.Geteuid(), Owner: t.UID}
	e.SysPtrace = privilege.Effective(capability.CAP_SYS_PTRACE)
	e.Undumpable = e.Owner != 0 && ownerOf(t.taskPath("stat")) == 0
	if link, rerr := os.Readlink(t.taskPath("ns/user")); rerr == nil && link != "" {
		e.UserNS = !t.sameNamespace("user")
	}
	return e
}

// ownerOf is a file's; -1: not said.
func ownerOf(path string) int {
	info, err := os.Stat(path)
	if err != nil {
		return -1
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(st.Uid)
}

// PtraceScope is kernel.yama.ptrace_scope, or -1 where it does not exist.
func PtraceScope() int { return sysctl("kernel/yama/ptrace_scope") }

func isESRCH(err error) bool { return errors.Is(err, unix.ESRCH) }
