package session

import (
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The niceness at which the tool collects records, never lower than at its start. On busy
// CPUs the target has priority. If records are dropped, the tool cannot keep up, and takes
// the highest niceness until no record has been dropped for quietAfter.
const (
	niceCollecting = 10
	niceOverrun    = 19
	niceFinished   = 0 // the window is over, and the user waits for the end
	quietAfter     = time.Second
)

// lowPriority runs work on its own thread; other threads may set that thread's niceness.
type lowPriority struct {
	mu  sync.Mutex
	tid int // 0: not started, or ended: the kernel may reuse the number

	least    int // the niceness at the tool's start
	nice     int
	lost     uint64
	lostLast time.Time
}

// run starts work. The thread ends with it: the Go runtime does not reuse a locked thread.
func (b *lowPriority) run(work func()) {
	b.least = niceness()
	b.nice = b.least
	go func() {
		runtime.LockOSThread()
		b.setTID(unix.Gettid())
		defer b.setTID(0)
		b.setNice(niceCollecting)
		work()
	}()
}

// niceness returns this process's niceness; 0 if it cannot be read.
func niceness() int {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, os.Getpid())
	if err != nil {
		return 0
	}
	return 20 - raw // the system call returns 20 - niceness, which is never negative
}

func (b *lowPriority) setTID(tid int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tid = tid
}

// adapt chooses the niceness by the number of records lost so far. One goroutine
// calls it repeatedly while the window is open.
func (b *lowPriority) adapt(lost uint64) {
	now := time.Now()
	if lost != b.lost {
		b.lost, b.lostLast = lost, now
	}
	if now.Sub(b.lostLast) < quietAfter {
		b.setNice(niceOverrun)
	} else {
		b.setNice(niceCollecting)
	}
}

// raisePriority ends the low priority after the window, when the user waits.
func (b *lowPriority) raisePriority() { b.setNice(niceFinished) }

// setNice sets the niceness of the thread. If the kernel refuses, the niceness stays.
func (b *lowPriority) setNice(nice int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	nice = max(nice, b.least)
	if nice == b.nice || b.tid == 0 {
		return
	}
	// To lower it again, the tool needs CAP_SYS_NICE, or RLIMIT_NICE (privileges.go).
	if err := unix.Setpriority(unix.PRIO_PROCESS, b.tid, nice); err == nil {
		b.nice = nice
	}
}
