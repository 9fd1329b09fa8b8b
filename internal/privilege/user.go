package privilege

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A User is whose rights on files a thread has (credentials(7)).
type User struct {
	UID, GID int
	Groups   []int
}

// Do calls fn with this user's rights on files, and with none of ours: the kernel
// itself decides what may be done, by modes, ACLs and mapped mounts alike. It is
// called on a thread of its own, which ends with it.
func (u User) Do(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good
		err := u.become()
		if err == nil {
			err = fn()
		}
		done <- err
	}()
	return <-done
}

// become changes this thread alone: libc would change all.
func (u User) become() error {
	if err := setThreadGroups(u.Groups); err != nil {
		return fmt.Errorf("take the groups of uid %d: %w", u.UID, err)
	}
	// Neither says that it has failed; asked for no user, both say who is.
	_, _ = unix.SetfsgidRetGid(u.GID)
	_, _ = unix.SetfsuidRetUid(u.UID)
	gid, _ := unix.SetfsgidRetGid(-1)
	uid, _ := unix.SetfsuidRetUid(-1)
	if uid != u.UID || gid != u.GID {
		return fmt.Errorf("become uid %d, gid %d: %w", u.UID, u.GID, unix.EPERM)
	}
	return keepOnly(1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID)
}

func setThreadGroups(groups []int) error {
	now, err := syscall.Getgroups()
	if err != nil || slices.Equal(now, groups) {
		return err
	}
	gids := make([]uint32, len(groups))
	for i, g := range groups {
		gids[i] = uint32(g)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(gids)), uintptr(unsafe.Pointer(unsafe.SliceData(gids))), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// keepOnly gives up all other effective capabilities of this thread. Those that
// change users stay: Lower changes all threads at once, and libc (or Go's runtime)
// ends the process when one of them cannot follow.
func keepOnly(mask uint32) error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return err
	}
	data[0].Effective &= mask
	data[1].Effective = 0
	return unix.Capset(&head, &data[0])
}
