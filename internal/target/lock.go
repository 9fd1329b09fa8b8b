package target

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Lock excludes other instances of the tool from the target while it is held, also
// before there is a payload. It is an abstract socket, named after the target's pid
// namespace, its pid there and its start time: the kernel releases it when the tool
// dies, and it leaves no file. It is advisory, and abstract sockets belong to a network
// namespace: the lock in the control block covers tools in other ones.
type Lock struct{ fd int }

// Lock acquires the lock, or fails with a BusyError.
func (t *Target) Lock() (*Lock, error) { return t.lock((*Lock).listen) }

// Unlocked fails with a BusyError if another tool holds the lock. It acquires the lock
// for a moment without listening, so that a tool that wants it meanwhile tries again.
func (t *Target) Unlocked() error {
	l, err := t.lock(func(*Lock) error { return nil })
	if err == nil {
		l.Release()
	}
	return err
}

// lock acquires the lock and calls then. It retries while the holder is unknown.
func (t *Target) lock(then func(*Lock) error) (*Lock, error) {
	inode, err := t.namespace("pid")
	if err != nil {
		return nil, err
	}
	nspid := t.PID
	if len(t.NSPID) > 0 {
		nspid = t.NSPID[len(t.NSPID)-1]
	}
	name := &unix.SockaddrUnix{Name: fmt.Sprintf("@rtl-attach/%d/%d/%d", inode, nspid, t.StartTicks)}
	for deadline := time.Now().Add(unknownHolderTimeout); ; time.Sleep(time.Millisecond) {
		l, err := t.bind(name, then)
		var busy *BusyError
		if !errors.As(err, &busy) || busy.Holder != 0 || time.Now().After(deadline) {
			return l, err
		}
	}
}

// unknownHolderTimeout is how long a holder may take from its bind to its listen, or
// from the end of its listening to the release.
const unknownHolderTimeout = time.Second

func (t *Target) bind(name *unix.SockaddrUnix, then func(*Lock) error) (*Lock, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("lock of pid %d: %w", t.PID, err)
	}
	if err := unix.Bind(fd, name); err != nil {
		_ = unix.Close(fd)
		if errors.Is(err, unix.EADDRINUSE) {
			return nil, &BusyError{PID: t.PID, Holder: holder(name)}
		}
		return nil, fmt.Errorf("lock of pid %d: %w", t.PID, err)
	}
	l := &Lock{fd: fd}
	if err := then(l); err != nil {
		l.Release()
		return nil, fmt.Errorf("lock of pid %d: %w", t.PID, err)
	}
	return l, nil
}

// backlog is the number of tools that can find out who holds the lock: the holder
// accepts no connection, so they stay in the queue.
const backlog = 1024

// listen lets other tools connect and so read the holder's pid (SO_PEERCRED).
func (l *Lock) listen() error { return unix.Listen(l.fd, backlog) }

// Release releases the lock.
func (l *Lock) Release() { _ = unix.Close(l.fd) }

// holder returns the pid of the process that listens on the socket; 0 if unknown.
func holder(name unix.Sockaddr) int {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	if unix.Connect(fd, name) != nil {
		return 0
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0
	}
	return int(cred.Pid)
}
