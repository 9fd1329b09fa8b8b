// Package privilege drops root's privileges temporarily. It changes the effective
// user of all threads, and the kernel then clears all effective capabilities
// (capabilities(7), "Effect of user ID changes"). The real user stays root: the
// process can restore its privileges, and no other user may signal or trace it.
// This protects against mistakes, and against a target that tricks the tool into
// using root's rights (confused deputy). It does not protect against foreign code
// that runs inside the tool.
package privilege

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// overflowID is the user and group "nobody", used if sudo did not start the tool.
const overflowID = 65534

// A thread carries a change out when it gets a processor; one that hangs in the kernel
// never does. So a change is awaited for as long as, at each look, a thread of this
// process waits for a processor, and for 30 seconds at most.
const (
	changeLook  = 2 * time.Second
	changeLooks = 15
)

// ErrTimeout: a thread has not changed its user in time. It may still do so: the next call
// of Lower or Raise waits for it first.
var ErrTimeout = errors.New("a thread did not change its user in time")

// Privileges holds the privilege state of this process. The zero value is the
// state before Lower.
type Privileges struct {
	mu         sync.Mutex
	lowered    bool // or being lowered
	groups     []int
	unfinished chan error // the result of a change that was not awaited to its end
}

// Lower drops the privileges of all threads: it takes the user and group from
// SUDO_UID and SUDO_GID, or nobody's. It does nothing if the effective user is not root.
func (p *Privileges) Lower() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.await(); err != nil {
		return err
	}
	if p.lowered || os.Geteuid() != 0 {
		return nil
	}
	uid, gid := idFromEnv("SUDO_UID"), idFromEnv("SUDO_GID")
	var err error
	if p.groups, err = syscall.Getgroups(); err != nil {
		return err
	}
	p.lowered = true
	p.inAllThreads(
		func() error { return syscall.Setgroups([]int{gid}) },
		func() error { return syscall.Setresgid(-1, gid, -1) },
		func() error { return syscall.Setresuid(-1, uid, -1) },
	)
	return p.await()
}

// Raise restores the privileges that Lower dropped.
func (p *Privileges) Raise() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.await(); err != nil {
		return err
	}
	if !p.lowered {
		return nil
	}
	p.lowered = false
	p.inAllThreads(
		func() error { return syscall.Setresuid(-1, 0, -1) },
		func() error { return syscall.Setresgid(-1, 0, -1) },
		func() error { return syscall.Setgroups(p.groups) },
	)
	return p.await()
}

func idFromEnv(name string) int {
	if id, err := strconv.Atoi(os.Getenv(name)); err == nil && id > 0 {
		return id
	}
	return overflowID
}

// inAllThreads begins the changes, which libc or the Go runtime carries out in every
// thread.
func (p *Privileges) inAllThreads(changes ...func() error) {
	done := make(chan error, 1)
	p.unfinished = done
	go func() {
		for _, change := range changes {
			if err := change(); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
}

// await returns the result of the change that has begun, if any, or ErrTimeout.
func (p *Privileges) await() error {
	if p.unfinished == nil {
		return nil
	}
	err := await(p.unfinished, changeLook, changeLooks, anotherIsRunnable)
	if !errors.Is(err, ErrTimeout) {
		p.unfinished = nil
	}
	return err
}

// await waits for done, until it has looked so often, or until nothing is runnable at a look.
func await(done <-chan error, look time.Duration, looks int, runnable func() bool) error {
	for range looks {
		select {
		case err := <-done:
			return err
		case <-time.After(look):
		}
		if len(done) == 0 && !runnable() {
			break
		}
	}
	return ErrTimeout
}

// anotherIsRunnable reports whether a thread of this process, other than the calling one, runs
// or waits for a processor (proc_pid_stat(5), field 3).
func anotherIsRunnable() bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const tasks = "/proc/self/task"
	own := strconv.Itoa(unix.Gettid())
	threads, _ := os.ReadDir(tasks)
	for _, thread := range threads {
		stat, _ := os.ReadFile(filepath.Join(tasks, thread.Name(), "stat"))
		_, fields, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		if ok && thread.Name() != own && bytes.HasPrefix(fields, []byte("R")) {
			return true
		}
	}
	return false
}
