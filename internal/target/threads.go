package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/privilege"
)

// threadsMax limits the walk over a process's threads.
const threadsMax = 1 << 16

// Threads lists the thread ids, ascending.
func (t *Target) Threads() ([]int, error) {
	d, err := os.Open(t.path("task"))
	if err != nil {
		return nil, fmt.Errorf("list threads of pid %d: %w", t.PID, goneOr(err))
	}
	defer d.Close()
	names, err := d.Readdirnames(threadsMax)
	if err != nil {
		return nil, fmt.Errorf("list threads of pid %d: %w", t.PID, goneOr(err))
	}
	tids := make([]int, 0, len(names))
	for _, n := range names {
		if tid, err := strconv.Atoi(n); err == nil {
			tids = append(tids, tid)
		}
	}
	slices.Sort(tids)
	return tids, nil
}

// Syscall is one reading of /proc/PID/task/TID/syscall (proc_pid_syscall(5)).
type Syscall struct {
	Running bool // on a CPU or runnable: the other fields are not valid
	Number  int  // -1: blocked, but in no syscall (a page fault, a stop)
	Args    [6]uint64
	SP, PC  Addr
}

func parseSyscall(s string) (Syscall, error) {
	f := strings.Fields(s)
	if len(f) == 1 && f[0] == "running" {
		return Syscall{Running: true, Number: -1}, nil
	}
	if len(f) != 9 && len(f) != 3 {
		return Syscall{}, fmt.Errorf("syscall: %w", ErrMalformed)
	}
	nr, err := strconv.Atoi(f[0])
	if err != nil {
		return Syscall{}, fmt.Errorf("syscall: %w", ErrMalformed)
	}
	c := Syscall{Number: nr}
	words := make([]uint64, len(f)-1)
	for i, w := range f[1:] {
		if words[i], err = strconv.ParseUint(strings.TrimPrefix(w, "0x"), 16, 64); err != nil {
			return Syscall{}, fmt.Errorf("syscall: %w", ErrMalformed)
		}
	}
	n := copy(c.Args[:], words[:len(words)-2])
	c.SP, c.PC = Addr(words[n]), Addr(words[n+1])
	return c, nil
}

// Syscall reads the system call in which the thread waits.
func (t *Target) Syscall(tid int) (Syscall, error) {
	b, err := readProc(t.threadPath(tid, "syscall"))
	if err != nil {
		return Syscall{}, t.ofThread(tid, err)
	}
	return parseSyscall(string(b))
}

// ThreadStat reads the thread's stat file.
func (t *Target) ThreadStat(tid int) (Stat, error) {
	b, err := readProc(t.threadPath(tid, "stat"))
	if err != nil {
		return Stat{}, t.ofThread(tid, err)
	}
	return parseStat(b)
}

// Asleep returns an AsleepError if every thread is in uninterruptible sleep (state D): a
// tracer can stop it only after that.
func (t *Target) Asleep() error {
	tids, err := t.Threads()
	if err != nil {
		return err
	}
	asleep := &AsleepError{PID: t.PID}
	for _, tid := range tids {
		switch s, err := t.ThreadStat(tid); {
		case err != nil || s.State == 'Z' || s.State == 'X':
		case s.State != 'D':
			return nil
		case asleep.Where == "":
			asleep.Where = t.WaitChannel(tid)
		}
	}
	return asleep
}

// WaitChannel returns the kernel function in which a thread sleeps; "" if unknown.
func (t *Target) WaitChannel(tid int) string {
	b, err := readProc(t.threadPath(tid, "wchan"))
	if err != nil || string(b) == "0" {
		return ""
	}
	return string(b)
}

// ThreadStatus reads the thread's status file.
func (t *Target) ThreadStatus(tid int) (Status, error) {
	b, err := readProc(t.threadPath(tid, "status"))
	if err != nil {
		return Status{}, t.ofThread(tid, err)
	}
	return parseStatus(b), nil
}

// ThreadUser returns the thread's filesystem identity.
func (t *Target) ThreadUser(tid int) (privilege.User, error) {
	b, err := readProc(t.threadPath(tid, "status"))
	if err != nil {
		return privilege.User{}, t.ofThread(tid, err)
	}
	return parseUser(b)
}

// ThreadByNSPID returns the ID, in the tool's pid namespace, of the target's thread whose
// ID in the target's own namespace is nstid. The target may have invented nstid, so the
// thread must exist in the target. If ThreadEnded(err), the thread does not exist; after
// any other error it may exist.
func (t *Target) ThreadByNSPID(nstid int) (int, error) {
	if len(t.NSPID) < 2 { // same namespace: no walk
		_, err := t.ThreadStat(nstid)
		if same := t.CheckIdentity(); err != nil && same != nil {
			return 0, same // not only the thread has ended
		}
		return nstid, err
	}
	tid, err := findThread(nstid, t.Threads, t.ThreadStatus)
	if err != nil {
		return 0, fmt.Errorf("thread %d of pid %d's namespace: %w", nstid, t.PID, err)
	}
	return tid, nil
}

// ThreadName returns the name (PR_SET_NAME) of the thread whose ID in the target's pid
// namespace is nstid, "" if unknown, for example because it has ended. For a target in
// another pid namespace it searches the first listingMax threads, at most once every
// listingPause.
func (t *Target) ThreadName(nstid int) string {
	tid := nstid
	if len(t.NSPID) > 1 {
		tid = t.names.find(nstid, t)
	}
	return t.Name(tid)
}

// Name returns the name of the thread with the tool's id of it; "" if unknown.
func (t *Target) Name(tid int) string {
	b, err := readProc(t.threadPath(tid, "comm"))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(b), "\n")
}

const (
	listingPause = time.Second
	listingMax   = 4096
)

// threadIDs maps thread IDs in the target's namespace to IDs in the tool's.
type threadIDs struct {
	mu     sync.Mutex
	known  map[int]int
	listed time.Time
}

// find returns 0 for a thread that was not in the last listing.
func (ids *threadIDs) find(nstid int, t *Target) int {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	if ids.known[nstid] == 0 && time.Since(ids.listed) > listingPause {
		ids.known = map[int]int{}
		tids, _ := t.Threads()
		for _, tid := range tids[:min(len(tids), listingMax)] {
			if s, err := t.ThreadStatus(tid); err == nil && len(s.NSPID) > 0 {
				ids.known[s.NSPID[len(s.NSPID)-1]] = tid
			}
		}
		ids.listed = time.Now()
	}
	return ids.known[nstid]
}

const (
	findLimit   = 5 * time.Second // a target can have many threads, each slow to read
	listings    = 3               // complete listings without the thread: an ending thread may hide another from one listing
	listingsMax = 12              // if threads start and end often, few listings are complete
)

var errUnsure = errors.New("not found, but not all of them could be read")

// findThread searches for the thread whose ID in its own namespace is nstid.
func findThread(nstid int, list func() ([]int, error), status func(int) (Status, error)) (int, error) {
	complete := 0
	deadline := time.Now().Add(findLimit)
	for range listingsMax {
		tids, err := list()
		if err != nil {
			return 0, err
		}
		tid, whole := pick(nstid, tids, status, deadline)
		if tid != 0 {
			return tid, nil
		}
		if whole {
			complete++
		}
		if complete == listings {
			return 0, ErrThreadGone
		}
		if time.Now().After(deadline) {
			break
		}
	}
	return 0, errUnsure
}

// pick searches the listed threads. whole reports whether the listing was complete, and
// all threads were read before the deadline.
func pick(nstid int, tids []int, status func(int) (Status, error), deadline time.Time) (tid int, whole bool) {
	whole = len(tids) < threadsMax
	for _, tid := range tids {
		if time.Now().After(deadline) {
			return 0, false
		}
		s, err := status(tid)
		if err != nil || len(s.NSPID) == 0 {
			whole = false
		} else if s.NSPID[len(s.NSPID)-1] == nstid {
			return tid, true
		}
	}
	return 0, whole
}

// ofThread converts an error from the thread's files in /proc: a missing thread is
// ErrThreadGone, but a missing leader or live thread is ErrGone.
func (t *Target) ofThread(tid int, err error) error {
	if err = goneOr(err); err == ErrGone && tid != t.PID && tid != t.LiveThread() {
		err = ErrThreadGone
	}
	return fmt.Errorf("thread %d: %w", tid, err)
}

// ThreadEnded reports whether err means that the thread, or its whole process, does not
// exist any more.
func ThreadEnded(err error) bool {
	return errors.Is(err, ErrThreadGone) || errors.Is(err, ErrGone)
}

// goneOr converts the errors of /proc for a dead process to ErrGone.
func goneOr(err error) error {
	if errors.Is(err, fs.ErrNotExist) || isESRCH(err) {
		return ErrGone
	}
	return err
}
