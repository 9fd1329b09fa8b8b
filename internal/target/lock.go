package target

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Lock keeps other tools away from the target for as long as it is held, also
// before a payload is there. It is an abstract socket, named after the target's
// pid namespace, its pid there and its start time: the kernel releases it when
// the tool dies, and it leaves no file. It is advisory, and abstract sockets
// belong to a network namespace: the lock in the control block is for the rest.
type Lock struct{ fd int }

// Lock takes the lock, or fails with a BusyError.
func (t *Target) Lock() (*Lock, error) { return t.lock((*Lock).answer) }

// Unlocked fails with a BusyError if a tool holds the lock. It has it for a
// moment itself, without a name: a tool that wants it then tries again.
func (t *Target) Unlocked() error {
	l, err := t.lock(func(*Lock) error { return nil })
	if err == nil {
		l.Release()
	}
	return err
}

// lock takes it, and then does what belongs to that.
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
	for deadline := time.Now().Add(nameless); ; time.Sleep(time.Millisecond) {
		l, err := t.bind(name, then)
		var busy *BusyError
		if !errors.As(err, &busy) || busy.Holder != 0 || time.Now().After(deadline) {
			return l, err
		}
	}
}

// nameless is how long a holder may take from its bind to its listen, or from
// the end of its listening to the end of its lock.
const nameless = time.Second

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

// askers is how many tools learn who holds the lock: nobody takes their calls,
// and they stay in the queue.
const askers = 1024

// answer lets the next tool ask who we are.
func (l *Lock) answer() error { return unix.Listen(l.fd, askers) }

// Release gives the lock back.
func (l *Lock) Release() { _ = unix.Close(l.fd) }

// holder asks the kernel who listens there; 0: it would not say.
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
