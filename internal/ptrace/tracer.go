// Package ptrace stops single threads of another process for some tens of
// microseconds. It knows registers, signal masks and wait statuses, and
// nothing about what its callers do with a stopped thread.
package ptrace

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Tracer is one locked OS thread. The kernel takes ptrace requests only
// from the thread that attached, so every request of a session runs here.
//
// When a tracee does not stop, PTRACE_DETACH is impossible (it needs a
// stopped tracee): the OS thread then exits, which makes the kernel detach,
// and the next Do starts a new one.
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
	if err := t.dead.make(); err != nil {
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

// jobs holds since when each tracer has been at its present job.
var jobs = atWork{since: map[*Tracer]time.Time{}}

type atWork struct {
	mu    sync.Mutex
	since map[*Tracer]time.Time
}

func (a *atWork) begin(t *Tracer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since[t] = time.Now()
}

func (a *atWork) end(t *Tracer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.since, t)
}

// Busy is how long the present job has been running: one that touches a page
// which the tracee does not let come runs for ever.
func (t *Tracer) Busy() time.Duration {
	jobs.mu.Lock()
	defer jobs.mu.Unlock()
	if since, ok := jobs.since[t]; ok {
		return time.Since(since)
	}
	return 0
}

// Busy is the longest of all tracers.
func Busy() (longest time.Duration) {
	jobs.mu.Lock()
	defer jobs.mu.Unlock()
	for _, since := range jobs.since {
		longest = max(longest, time.Since(since))
	}
	return longest
}

// Close ends the tracer's thread. The tracer may be used again.
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
		// Never unlocked: a locked goroutine that returns takes its thread with it (but for
		// the process's main thread, which the runtime only parks).
		runtime.LockOSThread()
		tid <- unix.Gettid()
		for j := range work {
			j.done <- j.fn()
		}
	}()
	t.work, t.tid = work, <-tid
}

// stop ends the thread and waits until the kernel has forgotten it, and
// with it every tracee that it still had.
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
