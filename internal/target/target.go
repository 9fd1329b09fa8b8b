// Package target reads facts about another process: identity, mappings, symbols,
// threads, namespaces, and conditions that prevent an attach. It reads and writes the
// process's memory, but never stops a thread.
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

// Target is one process. Its pidfd distinguishes it from a later process with the same
// pid, its memory descriptor from another program in the same process.
type Target struct {
	PID        int
	Parent     int
	StartTicks uint64 // since boot
	Comm       string
	NSPID      []int // its pids, from the tool's pid namespace down to its own
	UID        int

	tracer int    // ID of the tracing thread; 0: none
	stack  uint64 // start of the program's stack, which differs in another program
	pidfd  *os.File
	dir    *os.File // /proc/PID: refers to this process even when another has its pid
	stat   *os.File // kept open: the tool can read it later without privileges
	statm  *os.File // likewise
	mem    *os.File // the address space at Open; nil after OpenLight
	space  *os.File // pagemap of the same address space, see inSpace; nil if the kernel has none

	live atomic.Int64 // a thread whose /proc files work: the leader may be a zombie

	spent atomic.Int64 // counted against readsMax
	names threadIDs

	beside bool // see Beside
}

// Beside returns the same process for reads that its session does not need: if one of them hangs, Stalled does not report
// it. It must not be closed, and is valid until t is.
func (t *Target) Beside() *Target {
	b := &Target{
		PID: t.PID, Parent: t.Parent, StartTicks: t.StartTicks, Comm: t.Comm, NSPID: t.NSPID, UID: t.UID, tracer: t.tracer, stack: t.stack,
		pidfd: t.pidfd, dir: t.dir, stat: t.stat, statm: t.statm, mem: t.mem, space: t.space, beside: true,
	}
	b.live.Store(t.live.Load())
	return b
}

// Open opens the process pid for an attach. It fails for zombies, kernel threads, and
// stopped or traced processes.
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

// OpenReadOnly opens the process pid and its memory, which it cannot write. The process may be
// stopped or traced.
func OpenReadOnly(pid int) (*Target, error) {
	t, err := OpenLight(pid)
	if err != nil {
		return nil, err
	}
	if err = t.settle(); err == nil {
		err = t.openMemory(os.O_RDONLY)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// OpenLight opens the process pid to list it: it does not open its memory, and the
// process may be stopped or traced.
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

// openDir opens /proc/PID. A lookup below that descriptor finds files of this process or
// fails, even when another process has the pid.
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
	// If the process is not reaped now, it had its pid when dir was opened.
	if unix.PidfdSendSignal(int(t.pidfd.Fd()), 0, nil, 0) == unix.ESRCH {
		return fmt.Errorf("pid %d: %w", t.PID, ErrGone)
	}
	return nil
}

// path returns the path of a file in the target's directory in /proc.
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

// execPatience is how long an exec may take after it has discarded the old program.
const execPatience = 2 * time.Second

// settle waits until an exec in progress is complete: before that, neither the name nor
// the memory of the process belongs to the new program.
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
	if err := t.awaitTool(); err != nil {
		return err
	}
	if stat, err := t.ThreadStat(t.LiveThread()); err == nil && (stat.State == 'T' || stat.State == 't') {
		return fmt.Errorf("pid %d: %w", t.PID, ErrStopped)
	}
	return t.openMemory(os.O_RDWR)
}

// openMemory opens the memory once for the whole session: the descriptor keeps referring to
// this address space, so that the tool notices an exec.
func (t *Target) openMemory(flag int) error {
	var err error
	if t.mem, err = os.OpenFile(t.taskPath("mem"), flag, 0); err != nil {
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

// Traced returns a TracedError that names the process of the thread tracer.
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

// Close closes all descriptors.
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

// CheckIdentity returns nil while the process that was opened runs the same program;
// otherwise an ErrGone or ErrExec.
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
	// A process that shares its memory, such as a vfork child, keeps the old address space
	// alive after an exec.
	if s.StackStart != 0 && t.stack != 0 && s.StackStart != t.stack {
		return fmt.Errorf("pid %d: %w", t.PID, ErrExec)
	}
	if t.inSpace() {
		return nil
	}
	return t.left()
}

// inSpace reports whether a process still uses the address space that was opened. After
// an exec or exit its pagemap reads 0 bytes; otherwise the kernel refuses to read less
// than an entry, before it takes a lock. Kernels without pagemaps
// (CONFIG_PROC_PAGE_MONITOR) need a read of one byte of memory instead. That is the
// second choice: if nothing is mapped at the address, the kernel (since 6.5) looks for a
// stack to expand, and page faults of the target's threads would wait for the tool.
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

// Leaving reports whether the main thread has released its address space: it has ended,
// alone or with all other threads. Other threads may still be exiting, and the process
// may still be alive.
func (t *Target) Leaving() bool {
	size, err := readAgain(t.statm)
	return err != nil || bytes.HasPrefix(size, []byte("0 "))
}

// left distinguishes an exec from an exit, both of which release the address space: after
// an exec there is another one, after an exit the pidfd soon reports it.
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

// stableChecks is the number of consecutive checks that must find the process not
// exiting: a thread that has dequeued its SIGKILL and has not begun to exit shows neither.
const stableChecks = 3

// WaitGone waits up to patience for an exiting process to be gone, and then checks its
// identity: the threads exit one by one, and their memory goes last.
func (t *Target) WaitGone(patience time.Duration) error {
	looks := 0
	for deadline := time.Now().Add(patience); looks < stableChecks; time.Sleep(time.Millisecond) {
		if err := t.CheckIdentity(); err != nil || time.Now().After(deadline) {
			return err
		}
		if looks++; t.exiting(deadline) {
			looks = 0
		}
	}
	return nil
}

// exiting reports whether a thread has a pending SIGKILL, as all other threads have at an
// exit or exec, or the live thread is exiting. It checks the live thread last: its SIGKILL
// may have been pending a moment ago. It ignores threads that it has not checked by the
// deadline.
func (t *Target) exiting(deadline time.Time) bool {
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

// LiveThread returns a thread whose files in /proc can be read.
func (t *Target) LiveThread() int { return int(t.live.Load()) }

// switchThread replaces the live thread if it has ended, and reports whether it did.
func (t *Target) switchThread() bool {
	leader, err := t.ThreadStat(t.PID)
	if err != nil || !t.Alive() {
		return false
	}
	tid, err := t.liveThread(leader.State)
	return err == nil && t.live.Swap(int64(tid)) != int64(tid)
}

func (t *Target) taskPath(name string) string { return t.threadPath(t.LiveThread(), name) }

// Root returns a path to the target's root directory.
func (t *Target) Root() string { return t.taskPath("root") }

// explain wraps err with the facts that can explain it. It does not guess.
func (t *Target) explain(op string, err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err // the path has only descriptor numbers
	}
	switch {
	case isESRCH(err) || errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s of pid %d: %w", op, t.PID, ErrGone)
	case errors.Is(err, os.ErrPermission):
		return t.Denied(op, err)
	}
	return fmt.Errorf("%s of pid %d: %w", op, t.PID, err)
}

// Denied returns a DeniedError for err, the kernel's refusal of op.
func (t *Target) Denied(op string, err error) error {
	e := &DeniedError{PID: t.PID, Op: op, Err: err, PtraceScope: PtraceScope(), UID: os.Geteuid(), Owner: t.UID}
	e.SysPtrace, e.NoOverride = privilege.Effective(capability.CAP_SYS_PTRACE), !privilege.Effective(capability.CAP_DAC_OVERRIDE)
	e.Undumpable = e.Owner != 0 && ownerOf(t.taskPath("stat")) == 0
	if link, rerr := os.Readlink(t.taskPath("ns/user")); rerr == nil && link != "" {
		e.UserNS = !t.sameNamespace("user")
	}
	return e
}

// ownerOf returns the user ID of a file's owner; -1 if unknown.
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

// PtraceScope returns kernel.yama.ptrace_scope, or -1 if it does not exist.
func PtraceScope() int { return sysctl("kernel/yama/ptrace_scope") }

func isESRCH(err error) bool { return errors.Is(err, unix.ESRCH) }
