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
	"syscall"
	"time"
)

// overflowID is the user and group "nobody", used if sudo did not start the tool.
const overflowID = 65534

// changeTimeout limits how long Lower and Raise wait: a thread that hangs in the kernel
// does not carry out the change until it goes on.
const changeTimeout = 2 * time.Second

// ErrTimeout: a thread has not changed its user in time. The change goes on, and is undone
// if the opposite is wanted by then.
var ErrTimeout = errors.New("a thread did not change its user in time")

// Privileges holds the privilege state of this process. The zero value is the
// state before Lower. Any goroutine may call the methods.
type Privileges struct {
	lowered toggle
	groups  []int // nil: the effective user was not root
}

// Lower drops the privileges of all threads: it takes the user and group from
// SUDO_UID and SUDO_GID, or nobody's. It does nothing if the effective user is not root.
func (p *Privileges) Lower() error { return p.lowered.set(true, p.change, changeTimeout) }

// Raise restores the privileges that Lower dropped.
func (p *Privileges) Raise() error { return p.lowered.set(false, p.change, changeTimeout) }

// change changes all threads, by libc or the Go runtime.
func (p *Privileges) change(lower bool) error {
	if lower {
		return p.lower()
	}
	return p.raise()
}

func (p *Privileges) lower() error {
	if p.groups = nil; os.Geteuid() != 0 {
		return nil
	}
	groups, err := syscall.Getgroups()
	if err != nil {
		return err
	}
	p.groups = append([]int{}, groups...)
	uid, gid := idFromEnv("SUDO_UID"), idFromEnv("SUDO_GID")
	if err := syscall.Setgroups([]int{gid}); err != nil {
		return err
	}
	if err := syscall.Setresgid(-1, gid, -1); err != nil {
		return err
	}
	return syscall.Setresuid(-1, uid, -1)
}

func (p *Privileges) raise() error {
	if p.groups == nil {
		return nil
	}
	if err := syscall.Setresuid(-1, 0, -1); err != nil {
		return err
	}
	if err := syscall.Setresgid(-1, 0, -1); err != nil {
		return err
	}
	return syscall.Setgroups(p.groups)
}

func idFromEnv(name string) int {
	if id, err := strconv.Atoi(os.Getenv(name)); err == nil && id > 0 {
		return id
	}
	return overflowID
}
