package session

import (
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The niceness at which records are collected, never better than the one that the tool was
// started with. On busy CPUs the target goes first. Once records are dropped, the tool cannot
// keep up, and yields to the target altogether until none has been dropped for quietAfter.
const (
	niceCollecting = 10
	niceOverrun    = 19
	niceFinished   = 0 // nothing more comes, and somebody waits for the end
	quietAfter     = time.Second
)

// lowPriority is work on a thread of its own, whose niceness other threads may set.
type lowPriority struct {
	mu  sync.Mutex
	tid int // 0: not started, or ended: the kernel may reuse the number

	least    int // what the tool was started with
	nice     int
	lost     uint64
	lostLast time.Time
}

// run starts work. Its thread ends with it: a locked thread is not used again.
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
	return 20 - raw // the system call's way to avoid negative results
}

func (b *lowPriority) setTID(tid int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tid = tid
}

// adapt chooses the niceness by the number of records lost so far. One goroutine
// calls it, again and again, as long as the window is open.
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

// raisePriority ends the low priority: the window is over, and the user waits.
func (b *lowPriority) raisePriority() { b.setNice(niceFinished) }

// setNice sets the niceness of the thread. Where the kernel refuses, work goes on as before.
func (b *lowPriority) setNice(nice int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	nice = max(nice, b.least)
	if nice == b.nice || b.tid == 0 {
		return
	}
	// The way back needs CAP_SYS_NICE, or RLIMIT_NICE (privileges.go).
	if err := unix.Setpriority(unix.PRIO_PROCESS, b.tid, nice); err == nil {
		b.nice = nice
	}
}
