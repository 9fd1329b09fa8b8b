package session

import (
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The niceness at which records are collected, never better than the one that the
// tool was started with. Where target and tool share busy
// processors the target goes first; once records are being lost for it, the tool
// cannot keep up and leaves the processors to the target altogether, until it has
// been quiet for a while.
const (
	niceCollecting = 10
	niceOverrun    = 19
	niceFinished   = 0 // nothing more comes, and somebody waits for the end
	quietAfter     = time.Second
)

// A background is work on a thread of its own.
type background struct {
	mu  sync.Mutex
	tid int // 0: not yet started, or ended: the number may be somebody else's by then

	least    int // what the tool was started with
	nice     int
	lost     uint64
	lostLast time.Time
}

// run starts work. Its thread ends with it: a locked thread is not used again.
func (b *background) run(work func()) {
	b.least = niceness()
	b.nice = b.least
	go func() {
		runtime.LockOSThread()
		b.setTID(unix.Gettid())
		defer b.setTID(0)
		b.become(niceCollecting)
		work()
	}()
}

// niceness is this process's own; one that cannot be read is taken for the usual 0.
func niceness() int {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, os.Getpid())
	if err != nil {
		return 0
	}
	return 20 - raw // the system call's way to avoid negative results
}

func (b *background) setTID(tid int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tid = tid
}

// adapt chooses the niceness by the number of records lost so far. One goroutine
// calls it, again and again, as long as the window is open.
func (b *background) adapt(lost uint64) {
	now := time.Now()
	if lost != b.lost {
		b.lost, b.lostLast = lost, now
	}
	if now.Sub(b.lostLast) < quietAfter {
		b.become(niceOverrun)
	} else {
		b.become(niceCollecting)
	}
}

// hurry: the window is over.
func (b *background) hurry() { b.become(niceFinished) }

// become is not needed where it is refused: work goes on as before.
func (b *background) become(nice int) {
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
