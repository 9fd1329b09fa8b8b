package privilege

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// User is the filesystem identity of a thread (credentials(7)): file system user and
// group ID, and supplementary groups.
type User struct {
	UID, GID int
	Groups   []int
}

// Do calls fn with this user's rights on files and without the tool's: the kernel
// checks modes, ACLs and ID-mapped mounts as for that user. fn runs on a new thread,
// which ends after it.
func (u User) Do(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := u.become()
		if err == nil {
			err = fn()
		}
		done <- err
	}()
	return <-done
}

// become changes the calling thread only, by raw system calls: libc's functions
// would change all threads.
func (u User) become() error {
	if err := setThreadGroups(u.Groups); err != nil {
		return fmt.Errorf("take the groups of uid %d: %w", u.UID, err)
	}
	// Neither call reports a failure; called with -1, each returns the current ID.
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

// keepOnly removes all effective capabilities of this thread that are not in mask.
// The caller keeps CAP_SETUID and CAP_SETGID: Lower changes all threads at once, and
// libc (or Go's runtime) ends the process if one thread fails to change.
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
