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

// threadsMax bounds the walk over a process's threads.
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
	Running bool // on a CPU or about to be: nothing else is known
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

// Syscall reads what the thread waits in.
func (t *Target) Syscall(tid int) (Syscall, error) {
	b, err := readProc(t.threadPath(tid, "syscall"))
	if err != nil {
		return Syscall{}, t.ofThread(tid, err)
	}
	return parseSyscall(string(b))
}

// ThreadStat reads the thread's state and the CPU it last ran on.
func (t *Target) ThreadStat(tid int) (Stat, error) {
	b, err := readProc(t.threadPath(tid, "stat"))
	if err != nil {
		return Stat{}, t.ofThread(tid, err)
	}
	return parseStat(b)
}

// Asleep returns an AsleepError if every thread is in a sleep that no signal and
// no tracer interrupts (state D): a stop would come when it is over.
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
			asleep.Where = t.waitChannel(tid)
		}
	}
	return asleep
}

// waitChannel is the kernel's function in which a thread sleeps, where it says.
func (t *Target) waitChannel(tid int) string {
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

// ThreadUser is whose rights on files the thread has.
func (t *Target) ThreadUser(tid int) (privilege.User, error) {
	b, err := readProc(t.threadPath(tid, "status"))
	if err != nil {
		return privilege.User{}, t.ofThread(tid, err)
	}
	return parseUser(b)
}

// ThreadByNSPID finds the thread that the target itself calls nstid. The number
// may be the target's invention: it is not believed to be a thread of its own.
// What ThreadEnded says is certain; any other error means that it may be there.
func (t *Target) ThreadByNSPID(nstid int) (int, error) {
	if len(t.NSPID) < 2 { // same namespace: no walk
		_, err := t.ThreadStat(nstid)
		if same := t.CheckIdentity(); err != nil && same != nil {
			return 0, same // the thread went with its program
		}
		return nstid, err
	}
	tid, err := findThread(nstid, t.Threads, t.ThreadStatus)
	if err != nil {
		return 0, fmt.Errorf("thread %d of pid %d's namespace: %w", nstid, t.PID, err)
	}
	return tid, nil
}

// ThreadName is what the thread is called that the target itself calls nstid (PR_SET_NAME),
// "" if it cannot be told: it has ended, say. Of a target in another pid namespace its first
// listingMost threads are looked through, but not more often than every listingPause.
func (t *Target) ThreadName(nstid int) string {
	tid := nstid
	if len(t.NSPID) > 1 {
		tid = t.names.find(nstid, t)
	}
	b, err := readProc(t.threadPath(tid, "comm"))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(b), "\n")
}

const (
	listingPause = time.Second
	listingMost  = 4096
)

// threadIDs are ids of threads by what the target calls them.
type threadIDs struct {
	mu     sync.Mutex
	known  map[int]int
	listed time.Time
}

// find returns 0 for a thread that was not there at the last look.
func (ids *threadIDs) find(nstid int, t *Target) int {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	if ids.known[nstid] == 0 && time.Since(ids.listed) > listingPause {
		ids.known = map[int]int{}
		tids, _ := t.Threads()
		for _, tid := range tids[:min(len(tids), listingMost)] {
			if s, err := t.ThreadStatus(tid); err == nil && len(s.NSPID) > 0 {
				ids.known[s.NSPID[len(s.NSPID)-1]] = tid
			}
		}
		ids.listed = time.Now()
	}
	return ids.known[nstid]
}

const (
	findLimit   = 5 * time.Second // a target can make a look at each of many threads long
	listings    = 3               // without a thread: a thread that ends may hide another from one of them
	listingsMax = 12              // where threads come and go, few are complete
)

var errUnsure = errors.New("not found, but not all of them could be read")

// findThread looks for the thread that its namespace calls nstid.
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

// pick finds the thread among those listed; whole: the listing hides none, and all
// were looked at before the deadline.
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

// ofThread is what an error of /proc's says of a thread. The one that the whole process
// is looked at through ends with it.
func (t *Target) ofThread(tid int, err error) error {
	if err = goneOr(err); err == ErrGone && tid != t.PID && tid != t.LiveThread() {
		err = ErrThreadGone
	}
	return fmt.Errorf("thread %d: %w", tid, err)
}

// ThreadEnded: the thread that err speaks of does not exist any more, alone or with its
// process.
func ThreadEnded(err error) bool {
	return errors.Is(err, ErrThreadGone) || errors.Is(err, ErrGone)
}

// goneOr turns the answers of /proc for a dead process into ErrGone.
func goneOr(err error) error {
	if errors.Is(err, fs.ErrNotExist) || isESRCH(err) {
		return ErrGone
	}
	return err
}
