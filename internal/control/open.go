package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Open opens the channel that a user has named: fd:N[,M], fifo:PATH[,PATH] or unix:PATH. The second
// descriptor or FIFO gets the answers. Close removes the FIFOs and the socket that Open has made.
func Open(spec string, h Handler) (*Server, error) {
	s := newServer(h, true)
	err := s.open(spec)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Check reports whether a channel's name can be one.
func Check(spec string) error {
	kind, rest, _ := strings.Cut(spec, ":")
	parts := strings.Split(rest, ",")
	switch {
	case kind != "fd" && kind != "fifo" && kind != "unix":
		return fmt.Errorf("%q: fd:N[,N], fifo:FILE[,FILE] or unix:FILE", spec)
	case len(parts) > 2 || kind == "unix" && len(parts) > 1:
		return fmt.Errorf("%q: too many commas", spec)
	}
	for _, part := range parts {
		if part == "" {
			return fmt.Errorf("%q: a name is missing", spec)
		}
		if n, err := strconv.Atoi(part); kind == "fd" && (err != nil || n < 3) {
			return fmt.Errorf("%q: the number of a descriptor above 2 is needed", spec)
		}
	}
	return nil
}

func (s *Server) open(spec string) error {
	if err := Check(spec); err != nil {
		return err
	}
	kind, rest, _ := strings.Cut(spec, ":")
	in, out, _ := strings.Cut(rest, ",")
	switch kind {
	case "fd":
		return s.inherit(in, out)
	case "fifo":
		return s.openFIFOs(in, out)
	}
	return s.bind(in)
}

// inherit uses descriptors that the recorder was started with. It does not change their blocking mode, which
// they share with other processes: a client that does not read blocks only its own goroutine.
func (s *Server) inherit(in, out string) error {
	from, isSocket, err := inherited(in)
	if err != nil {
		return err
	}
	c := &client{in: from, close: func() error { return nil }} // a close would wait for a read
	switch {
	case out != "":
		to, _, err := inherited(out)
		if err != nil {
			return err
		}
		c.out = to
	case isSocket:
		c.out = from
	}
	s.serve(c)
	return nil
}

func inherited(number string) (f *os.File, isSocket bool, err error) {
	fd, err := strconv.Atoi(number)
	if err != nil {
		return nil, false, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, false, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "control"), st.Mode&unix.S_IFMT == unix.S_IFSOCK, nil
}

func (s *Server) openFIFOs(in, out string) error {
	from, err := s.openFIFO(in)
	if err != nil {
		return err
	}
	c := &client{in: from, close: from.Close}
	if out != "" {
		to, err := s.openFIFO(out)
		if err != nil {
			return err
		}
		c.out, c.limit = to, to.SetWriteDeadline
		c.close = func() error { return errors.Join(from.Close(), to.Close()) }
	}
	s.serve(c)
	return nil
}

// openFIFO opens a FIFO, and makes it if there is none. It is open for reading and writing, so that the
// last client's end is not the end of the channel.
func (s *Server) openFIFO(path string) (*os.File, error) {
	err := unix.Mkfifo(path, 0o600)
	if err == nil {
		err = s.own(path)
	} else if errors.Is(err, unix.EEXIST) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := checkFIFO(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return f, nil
}

// checkFIFO refuses a file that others may write commands to.
func checkFIFO(f *os.File) error {
	raw, err := f.SyscallConn() // Fd would make it blocking
	if err != nil {
		return err
	}
	var st unix.Stat_t
	controlErr := raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) })
	if err := errors.Join(controlErr, err); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFIFO:
		return errors.New("it exists, and is no FIFO")
	case !isAllowed(int(st.Uid)):
		return fmt.Errorf("it belongs to user %d", st.Uid)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("others may write to it (mode %04o)", st.Mode&0o777)
	}
	return nil
}

// bind makes a socket. An existing file is an error.
func (s *Server) bind(path string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(s.own(path), os.Chmod(path, 0o600)); err != nil {
		return errors.Join(err, l.Close())
	}
	s.listen(l, isAllowed)
	return nil
}

// own gives a file that the server has made to the user behind sudo, if any, and has Close remove it, if it
// is still the same one.
func (s *Server) own(path string) error {
	made, err := os.Lstat(path)
	if err != nil {
		return err
	}
	s.undo(func() error {
		if now, err := os.Lstat(path); err != nil || !os.SameFile(made, now) {
			return nil
		}
		return os.Remove(path)
	})
	if uid, behind := userBehindSudo(); behind {
		return os.Lchown(path, uid, -1)
	}
	return nil
}
