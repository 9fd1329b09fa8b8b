package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/test/hang"
)

// recorder is a Handler.
type recorder struct {
	stopped  atomic.Bool
	triggers atomic.Uint64
}

func (r *recorder) Enable(context.Context) error  { return nil }
func (r *recorder) Disable(context.Context) error { return errors.New("not now") }
func (r *recorder) Flush(context.Context) error   { return nil }
func (r *recorder) Stop()                         { r.stopped.Store(true) }
func (r *recorder) State() any                    { return map[string]int{"dispatches": 5} }

func (r *recorder) Trigger(context.Context) (Written, error) {
	return Written{Number: r.triggers.Add(1), File: "/tmp/t-1.db"}, nil
}

// peer is a client.
type peer struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

func dial(t *testing.T, path string) *peer {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &peer{t, c, bufio.NewScanner(c)}
}

// ask sends a line, and returns the next answer that is no state.
func (p *peer) ask(line string) Reply {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
	return p.next()
}

func (p *peer) next() (r Reply) {
	p.t.Helper()
	for p.out.Scan() {
		r = Reply{}
		if err := json.Unmarshal(p.out.Bytes(), &r); err != nil {
			p.t.Fatalf("%q: %v", p.out.Text(), err)
		}
		if r.Ack != "" || r.Error != "" {
			return r
		}
	}
	p.t.Fatalf("no answer: %v", p.out.Err())
	return r
}

func open(t *testing.T, spec string) (*Server, *recorder) {
	t.Helper()
	h := &recorder{}
	s, err := Open(spec, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, h
}

// Each command has one answer, in the order of the commands.
func talk(t *testing.T, p *peer, h *recorder) {
	t.Helper()
	for line, want := range map[string]string{
		"ping": `{"ack":"ping"}`, "  enable\r": `{"ack":"enable"}`, "flush": `{"ack":"flush"}`, "disable": `{"error":"disable","text":"not now"}`,
		"state": `{"ack":"state","state":{"dispatches":5}}`,
	} {
		r := p.ask(line)
		if got := strings.TrimSpace(string(r.line())); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
	if r := p.ask("trigger"); r.Number != 1 || r.File != "/tmp/t-1.db" {
		t.Errorf("%+v", r)
	}
	if r := p.ask("rm -rf"); r.Error != "rm -rf" || !strings.Contains(r.Text, "ping, state") {
		t.Errorf("%+v", r)
	}
	if r := p.ask(strings.Repeat("x", 100_000)); r.Error != "?" || !strings.Contains(r.Text, "at most") {
		t.Errorf("%+v", r)
	}
	if r := p.ask("stop"); r.Ack != Stop || !h.stopped.Load() {
		t.Errorf("%+v", r)
	}
}

func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.sock")
	s, h := open(t, "unix:"+path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	talk(t, dial(t, path), h)
	if _, err := Open("unix:"+path, h); err == nil {
		t.Error("a second recorder has the same socket")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket stays: %v", err)
	}
}

func TestFIFO(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if err := unix.Mkfifo(in, 0o600); err != nil {
		t.Fatal(err)
	}
	s, h := open(t, "fifo:"+in+","+out)
	to, err := os.OpenFile(in, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	from, err := os.OpenFile(out, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	talk(t, &peer{t, to, bufio.NewScanner(from)}, h)
	to.Close() // the channel stays open for the next client
	if to, err = os.OpenFile(in, os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	p := &peer{t, to, bufio.NewScanner(from)}
	if r := p.ask("ping"); r.Ack != Ping {
		t.Errorf("%+v", r)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(in); err != nil {
		t.Errorf("a FIFO of somebody else was removed: %v", err)
	}
	if _, err := os.Lstat(out); !os.IsNotExist(err) {
		t.Errorf("the server's FIFO stays: %v", err)
	}
}

func TestDescriptors(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, h := open(t, "fd:"+strconv.Itoa(pair[0]))
	ours := os.NewFile(uintptr(pair[1]), "ours")
	defer ours.Close()
	talk(t, &peer{t, ours, bufio.NewScanner(ours)}, h)
}

// Files of others, and what is no channel, are refused; nothing is replaced.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	file, loose := filepath.Join(dir, "file"), filepath.Join(dir, "loose")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Mkfifo(loose, 0o600), os.Chmod(loose, 0o666)); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(loose, link); err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]string{
		"unix:" + file: "in use", "fifo:" + file: "no FIFO", "fifo:" + loose: "others may write", "fifo:" + link: "too many levels",
		"unix:" + dir + "/none/s": "no such file", "fd:99999": "bad file descriptor", "fd:1": "above 2", "fd:a": "above 2",
		"tcp:80": "unix:FILE", "unix:a,b": "commas", "fifo:": "a name is missing", "fifo:a,": "a name is missing", "": "unix:FILE",
	} {
		s, err := Open(spec, &recorder{})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", spec, err, want)
		}
	}
	if text, err := os.ReadFile(file); string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
}

// A client that never reads, and many clients, do not keep others from their answers.
func TestHostileClients(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.sock")
	_, h := open(t, "unix:"+path)
	deaf := dial(t, path)
	_ = deaf.in.(*net.UnixConn).SetReadBuffer(1)
	for range 200_000 { // until it is given up, or more than all buffers hold
		if _, err := io.WriteString(deaf.in, "ping\n"); err != nil {
			break
		}
	}
	var many []net.Conn
	for range 3 * mostClients {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		many = append(many, c)
	}
	for _, c := range many {
		c.Close()
	}
	if !hang.Eventually(func() bool { return answers(t, path) }) {
		t.Error("nobody gets an answer any more")
	}
	if n := h.triggers.Load(); n != 0 {
		t.Errorf("%d triggers", n)
	}
}

// answers reports whether a further client is served.
func answers(t *testing.T, path string) bool {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "ping\n"); err != nil {
		return false
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return err == nil && line == `{"ack":"ping"}`+"\n"
}

// A user other than root and the recorder's may not command it.
func TestPeers(t *testing.T) {
	me := os.Getuid()
	if !isAllowed(me) || !isAllowed(0) {
		t.Error("this user, or root, may not")
	}
	if isAllowed(me + 12345) {
		t.Error("any user may")
	}
	if me == 0 {
		t.Setenv("SUDO_UID", "4242")
		if !isAllowed(4242) {
			t.Error("the user behind sudo may not")
		}
	}
	path := filepath.Join(t.TempDir(), "c.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(&recorder{}, false)
	s.listen(l, func(int) bool { return false })
	defer s.Close()
	p := dial(t, path)
	if r := p.next(); !strings.Contains(r.Text, "only root") {
		t.Errorf("%+v", r)
	}
	if p.out.Scan() {
		t.Errorf("it goes on: %q", p.out.Text())
	}
}

func TestPrivate(t *testing.T) {
	self, err := resident.Self()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Ask(self, Ping); !errors.Is(err, ErrNoAnswer) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nobody listens: %v", err)
	}
	s, err := OpenPrivate(self, &recorder{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r, err := Ask(self, Trigger); err != nil || r.Ack != Trigger || r.File != "/tmp/t-1.db" {
		t.Errorf("%+v, %v", r, err)
	}
	other := self
	other.PID++
	l, err := net.ListenUnix("unix", address(other))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Ask(other, Ping); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("another process has the address: %v", err)
	}
}

// Lines have a bounded length, and any bytes end in lines or in the end of the stream.
func FuzzLines(f *testing.F) {
	f.Add([]byte("ping\nstop\n"))
	f.Add([]byte(strings.Repeat("x", longestLine+2) + "\nping"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := newLines(strings.NewReader(string(data)))
		for range len(data) + 2 {
			line, err := l.next()
			if len(line) > longestLine || strings.Contains(line, "\n") {
				t.Errorf("%q", line)
			}
			if err != nil && !errors.Is(err, errLong) {
				return
			}
		}
		t.Error("no end")
	})
}
