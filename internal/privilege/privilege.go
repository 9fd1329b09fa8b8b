// Package privilege lays root's privileges down for a while. The effective user
// becomes another one, in all threads, and with it go all effective capabilities
// (capabilities(7), "Effect of user ID changes"); the real user stays root, so
// that what was laid down can be taken up again, and so that nobody else may
// signal or trace us. It guards against doing something with root's rights by
// mistake, or because somebody talked us into it; not against code of somebody
// else's that runs in us.
package privilege

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// nobody is the user to be when there is none behind sudo.
const nobody = 65534

// stuckAfter is how long a thread of ours gets to change its user: one that hangs
// in the kernel never does.
const stuckAfter = 2 * time.Second

var errStuck = errors.New("a thread does not follow")

// Privileges are those of this process. The zero value has them all.
type Privileges struct {
	mu      sync.Mutex
	lowered bool
	groups  []int
}

// Lower lays them down. It does nothing unless we are root.
func (p *Privileges) Lower() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lowered || os.Geteuid() != 0 {
		return nil
	}
	uid, gid := behindSudo("SUDO_UID"), behindSudo("SUDO_GID")
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

// Raise takes them up again.
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

func behindSudo(name string) int {
	if id, err := strconv.Atoi(os.Getenv(name)); err == nil && id > 0 {
		return id
	}
	return nobody
}

// inAllThreads makes changes, which libc carries out in each thread, and does
// not wait for ever.
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
	case <-time.After(stuckAfter):
		return errStuck
	}
}
