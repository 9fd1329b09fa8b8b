// Package privilege drops root's privileges temporarily. It changes the effective
// user of all threads, and the kernel then clears all effective capabilities
// (capabilities(7), "Effect of user ID changes"). The real user stays root: the
// process can restore its privileges, and no other user may signal or trace it.
// This protects against mistakes, and against a target that tricks the tool into
// using root's rights (confused deputy). It does not protect against foreign code
// that runs inside the tool.
package privilege

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// overflowID is the user and group "nobody", used if sudo did not start the tool.
const overflowID = 65534

// changeTimeout limits the change in all threads: a thread that hangs in the kernel
// never carries it out.
const changeTimeout = 2 * time.Second

var errTimeout = errors.New("a thread did not change its user in time")

// Privileges holds the privilege state of this process. The zero value is the
// state before Lower.
type Privileges struct {
	mu      sync.Mutex
	lowered bool
	groups  []int
}

// Lower drops the privileges of all threads: it takes the user and group from
// SUDO_UID and SUDO_GID, or nobody's. It does nothing if the effective user is not root.
func (p *Privileges) Lower() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lowered || os.Geteuid() != 0 {
		return nil
	}
	uid, gid := idFromEnv("SUDO_UID"), idFromEnv("SUDO_GID")
	var err error
	if p.groups, err = syscall.Getgroups(); err != nil {
		return err
	}
	p.lowered = true
	return inAllThreads(
		func() error { return syscall.Setgroups([]int{gid}) },
		func() error { return syscall.Setresgid(-1, gid, -1) },
		func() error { return syscall.Setresuid(-1, uid, -1) },
	)
}

// Raise restores the privileges that Lower dropped.
func (p *Privileges) Raise() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.lowered {
		return nil
	}
	p.lowered = false
	return inAllThreads(
		func() error { return syscall.Setresuid(-1, 0, -1) },
		func() error { return syscall.Setresgid(-1, 0, -1) },
		func() error { return syscall.Setgroups(p.groups) },
	)
}

func idFromEnv(name string) int {
	if id, err := strconv.Atoi(os.Getenv(name)); err == nil && id > 0 {
		return id
	}
	return overflowID
}

// inAllThreads makes the changes, which libc or the Go runtime carries out in every
// thread. It returns errTimeout if they take longer than changeTimeout.
func inAllThreads(changes ...func() error) error {
	done := make(chan error, 1)
	go func() {
		for _, change := range changes {
			if err := change(); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(changeTimeout):
		return errTimeout
	}
}
