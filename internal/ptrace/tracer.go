// Package ptrace stops single threads of another process, as briefly as it can. It reads and
// writes registers and signal masks, decodes wait statuses, and knows nothing about what its
// callers do with a stopped thread.
package ptrace

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Tracer is one locked OS thread. The kernel accepts ptrace requests only from the
// thread that attached, so every request of a session runs on it.
//
// When a tracee does not stop, PTRACE_DETACH is impossible (it needs a stopped
// tracee): the OS thread then exits, so that the kernel detaches, and the next Do
// starts a new one.
type Tracer struct {
	mu   sync.Mutex
	work chan job
	tid  int
	dead deadman
}

type job struct {
	fn   func() error
	done chan error
}

// NewTracer returns a tracer; its thread starts with the first Do.
func NewTracer() *Tracer { return &Tracer{} }

// Do runs fn on the tracer's thread and returns its error. An fn that
// returns ErrNoStop ends the thread.
func (t *Tracer) Do(fn func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.work == nil {
		t.start()
	}
	if err := t.dead.create(); err != nil {
		return err
	}
	t.dead.set(HoldLimit)
	defer t.dead.set(0)
	jobs.begin(t)
	defer jobs.end(t)
	j := job{fn: fn, done: make(chan error, 1)}
	t.work <- j
	err := <-j.done
	if errors.Is(err, ErrNoStop) {
		t.stop()
	}
	return err
}

// jobs holds the start of each tracer's current job.
var jobs = jobTimes{since: map[*Tracer]time.Time{}}

type jobTimes struct {
	mu    sync.Mutex
	since map[*Tracer]time.Time
}

func (a *jobTimes) begin(t *Tracer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since[t] = time.Now()
}

func (a *jobTimes) end(t *Tracer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.since, t)
}

// Busy returns for how long the current job has been running, 0 if there is none. A
// job that reads a page which the target never provides (FUSE, userfaultfd) runs for
// ever.
func (t *Tracer) Busy() time.Duration {
	jobs.mu.Lock()
	defer jobs.mu.Unlock()
	if since, ok := jobs.since[t]; ok {
		return time.Since(since)
	}
	return 0
}

// Busy returns the age of the oldest job of all tracers.
func Busy() (longest time.Duration) {
	jobs.mu.Lock()
	defer jobs.mu.Unlock()
	for _, since := range jobs.since {
		longest = max(longest, time.Since(since))
	}
	return longest
}

// Close ends the tracer's thread. A later Do starts a new one.
func (t *Tracer) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.work != nil {
		t.stop()
	}
	t.dead.free()
}

func (t *Tracer) start() {
	work, tid := make(chan job), make(chan int)
	go func() {
		// Never unlocked: when a locked goroutine returns, its thread ends (except the
		// process's main thread, which the runtime only parks).
		runtime.LockOSThread()
		tid <- unix.Gettid()
		for j := range work {
			j.done <- j.fn()
		}
	}()
	t.work, t.tid = work, <-tid
}

// stop ends the thread and waits up to a second until it is gone; the kernel then has
// detached all its tracees.
func (t *Tracer) stop() {
	close(t.work)
	t.work = nil
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); {
		if unix.Tgkill(os.Getpid(), t.tid, 0) == unix.ESRCH {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}
