package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
)

// ErrNoAnswer is the error if a recorder cannot be reached.
var ErrNoAnswer = errors.New("its recorder does not answer")

const (
	dialLimit   = 2 * time.Second
	longestText = 64 << 10 // bytes of an answer
)

// address returns the abstract address of a recorder's private socket: it leaves no file.
func address(h ring.Holder) *net.UnixAddr {
	return &net.UnixAddr{Name: fmt.Sprintf("@rtl-attach/%d/%d", h.PID, h.StartTicks), Net: "unix"}
}

// OpenPrivate opens the private socket of this recorder.
func OpenPrivate(self ring.Holder, h Handler) (*Server, error) {
	l, err := net.ListenUnix("unix", address(self))
	if err != nil {
		return nil, err
	}
	s := newServer(h, false)
	s.listen(l, isAllowed)
	return s, nil
}

// Ask sends a command to a recorder and returns its answer. Any process could listen at the address: the
// answer is only taken from the recorder's process, of root, this user, or, for root, any user.
func Ask(recorder ring.Holder, command string) (Reply, error) {
	dialer := net.Dialer{Timeout: dialLimit}
	c, err := dialer.Dial("unix", address(recorder).Name)
	if err != nil {
		return Reply{}, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	conn := c.(*net.UnixConn)
	defer conn.Close()
	peer, err := peerOf(conn)
	if err != nil {
		return Reply{}, err
	}
	if uint32(peer.Pid) != recorder.PID || os.Geteuid() != 0 && !isAllowed(int(peer.Uid)) {
		return Reply{}, fmt.Errorf("%w: process %d of user %d has its address", ErrNoAnswer, peer.Pid, peer.Uid)
	}
	if err := conn.SetDeadline(time.Now().Add(workLimit + dialLimit)); err != nil {
		return Reply{}, err
	}
	if _, err := io.WriteString(conn, command+"\n"); err != nil {
		return Reply{}, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	var r Reply
	if err := json.NewDecoder(io.LimitReader(conn, longestText)).Decode(&r); err != nil {
		return Reply{}, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	r.Text, r.File = sanitize.Text(r.Text), sanitize.Text(r.File)
	return r, nil
}

// peerOf returns the process at the other end.
func peerOf(conn *net.UnixConn) (peer *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	controlErr := raw.Control(func(fd uintptr) {
		peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return peer, errors.Join(controlErr, err)
}

// isAllowed reports whether a user may command this recorder.
func isAllowed(uid int) bool {
	if behind, is := userBehindSudo(); is && uid == behind {
		return true
	}
	return uid == 0 || uid == os.Getuid()
}

// userBehindSudo returns the user who has called sudo.
func userBehindSudo() (uid int, is bool) {
	if os.Getuid() != 0 {
		return 0, false
	}
	uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	return uid, err == nil && uid > 0
}
