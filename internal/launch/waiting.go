package launch

import (
	"net"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Waiting is a process that waits in the payload before it can use a GPU.
type Waiting struct {
	PID  int
	conn *net.UnixConn
}

// Continue lets the process go on.
func (w *Waiting) Continue() { _ = w.conn.Close() }

// accept passes on the processes that ask. It ends when the listener is closed.
func (c *Child) accept() {
	for {
		conn, err := c.listener.AcceptUnix()
		if err != nil {
			return
		}
		w := &Waiting{conn: conn}
		var mayAsk bool
		if w.PID, mayAsk = c.peer(conn); !mayAsk {
			w.Continue()
			continue
		}
		select {
		case c.Waiting <- w:
		case <-c.closed:
			w.Continue()
		}
	}
}

// peer returns the process at the other end, and whether it may be recorded. Every process can find
// the address in /proc/net/unix, so it must belong to this tool's user or to the program.
func (c *Child) peer(conn *net.UnixConn) (pid int, mayAsk bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false
	}
	var cred *unix.Ucred
	if e := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil || err != nil {
		return 0, false
	}
	pid = int(cred.Pid)
	if pid <= 0 {
		return 0, false // of a pid namespace that cannot be seen from here
	}
	if int(cred.Uid) == os.Getuid() || pid == c.PID {
		return pid, true
	}
	tree, err := target.ReadProcTree()
	return pid, err == nil && slices.Contains(tree.Ancestors(pid), c.PID)
}
