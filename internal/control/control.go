// Package control lets other programs command a recorder: through descriptors that it inherits, through
// FIFOs, through a socket with a name, and through a private socket by which `rtl-attach trigger` and
// `rtl-attach flush` find it. Only root and the user who records may.
//
// A client sends lines of one command each. Each command gets one line of JSON when it is carried out:
// {"ack":COMMAND, …} or {"error":COMMAND,"text":…}. Between them there may be lines with the recorder's state.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// The commands.
const (
	Ping    = "ping"
	Enable  = "enable"
	Disable = "disable"
	Flush   = "flush"
	Trigger = "trigger"
	Stop    = "stop"
	State   = "state"
)

// Limits of what clients can make the recorder use.
const (
	longestLine = 256 // bytes of a command
	mostClients = 8   // of one channel at a time
	mostQueued  = 64  // lines that wait for a slow reader
	statePeriod = time.Second
	writeLimit  = 5 * time.Second // for one line, then the client is given up
	workLimit   = 30 * time.Second
)

// Handler carries the commands out. Several goroutines call it.
type Handler interface {
	Enable(ctx context.Context) error
	Disable(ctx context.Context) error
	Flush(context.Context) error
	Trigger(context.Context) (Written, error)
	Stop()
	State() any // encoded as JSON
}

// Written is the trace of a trigger.
type Written struct {
	Number uint64
	File   string
}

// Reply is one line to a client.
type Reply struct {
	Ack    string          `json:"ack,omitempty"`   // a command that was carried out
	Error  string          `json:"error,omitempty"` // a command that was not
	Text   string          `json:"text,omitempty"`  // why
	Number uint64          `json:"number,omitempty"`
	File   string          `json:"file,omitempty"`
	State  json.RawMessage `json:"state,omitempty"`
}

// Server is one channel.
type Server struct {
	handler Handler
	streams bool // clients get the state each statePeriod

	mu      sync.Mutex
	clients map[*client]bool
	closed  bool
	end     []func() error // of Close, in reverse order
}

func newServer(h Handler, streams bool) *Server {
	return &Server{handler: h, streams: streams, clients: map[*client]bool{}}
}

// undo has Close call end.
func (s *Server) undo(end func() error) { s.end = append(s.end, end) }

// Close ends all connections, and removes what the server has made. It waits for no client.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for c := range s.clients {
		c.drop()
	}
	s.mu.Unlock()
	var errs []error
	for i := len(s.end) - 1; i >= 0; i-- {
		errs = append(errs, s.end[i]())
	}
	return errors.Join(errs...)
}

// client is one connection.
type client struct {
	in     io.Reader
	out    io.Writer // nil: it gets no answers
	limit  func(time.Time) error
	close  func() error
	lines  chan []byte
	done   chan struct{}
	ending sync.Once
}

func (c *client) drop() {
	c.ending.Do(func() {
		close(c.done)
		_ = c.close()
	})
}

// serve serves a client until it ends. It reports whether there was room for it.
func (s *Server) serve(c *client) bool {
	c.lines, c.done = make(chan []byte, mostQueued), make(chan struct{})
	s.mu.Lock()
	room := !s.closed && len(s.clients) < mostClients
	if room {
		s.clients[c] = true
	}
	s.mu.Unlock()
	if !room {
		_ = c.close()
		return false
	}
	go s.write(c)
	go func() {
		s.read(c)
		s.mu.Lock()
		delete(s.clients, c)
		s.mu.Unlock()
		c.drop()
	}()
	return true
}

// write writes the lines of a client, and the state between them.
func (s *Server) write(c *client) {
	var tick <-chan time.Time
	if s.streams && c.out != nil {
		ticker := time.NewTicker(statePeriod)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		var line []byte
		select {
		case line = <-c.lines:
		case <-tick:
			line = s.state().line()
		case <-c.done:
			return
		}
		if c.out == nil {
			continue
		}
		if c.limit != nil {
			_ = c.limit(time.Now().Add(writeLimit))
		}
		if _, err := c.out.Write(line); err != nil {
			c.drop()
			return
		}
	}
}

// send queues a line. A client that takes none is given up: it would miss an answer.
func (c *client) send(r Reply) {
	select {
	case c.lines <- r.line():
	default:
		c.drop()
	}
}

func (r Reply) line() []byte {
	line, err := json.Marshal(r)
	if err != nil {
		line = []byte("{}")
	}
	return append(line, '\n')
}

func (s *Server) state() Reply {
	state, err := json.Marshal(s.handler.State())
	if err != nil {
		state = nil
	}
	return Reply{State: state}
}

// read carries out a client's commands, one after the other.
func (s *Server) read(c *client) {
	lines := newLines(c.in)
	for {
		command, err := lines.next()
		if errors.Is(err, errLong) {
			c.send(Reply{Error: "?", Text: err.Error()})
			continue
		}
		if err != nil {
			return
		}
		if command != "" {
			c.send(s.carryOut(command))
		}
	}
}

// carryOut carries a command out, and returns its answer.
func (s *Server) carryOut(command string) Reply {
	ctx, cancel := context.WithTimeout(context.Background(), workLimit)
	defer cancel()
	done := Reply{Ack: command}
	var err error
	switch command {
	case Ping:
	case State:
		done.State = s.state().State
	case Enable:
		err = s.handler.Enable(ctx)
	case Disable:
		err = s.handler.Disable(ctx)
	case Flush:
		err = s.handler.Flush(ctx)
	case Trigger:
		var w Written
		w, err = s.handler.Trigger(ctx)
		done.Number, done.File = w.Number, w.File
	case Stop:
		s.handler.Stop()
	default:
		err = fmt.Errorf("no command has this name: %s, %s, %s, %s, %s, %s, %s", Ping, State, Enable, Disable, Flush, Trigger, Stop)
	}
	if err != nil {
		return Reply{Error: command, Text: err.Error()}
	}
	return done
}

// listen serves the connections of a listener, from permitted users only.
func (s *Server) listen(l *net.UnixListener, allowed func(uid int) bool) {
	s.undo(l.Close)
	go func() {
		for {
			conn, err := l.AcceptUnix()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				time.Sleep(acceptPause) // no descriptor is free
				continue
			}
			s.admit(conn, allowed)
		}
	}()
}

const acceptPause = 100 * time.Millisecond

func (s *Server) admit(conn *net.UnixConn, allowed func(uid int) bool) {
	_ = conn.SetWriteDeadline(time.Now().Add(writeLimit))
	peer, err := peerOf(conn)
	if err != nil || !allowed(int(peer.Uid)) {
		_, _ = conn.Write(Reply{Error: "?", Text: "only root and the user who records may command this recorder"}.line())
		_ = conn.Close()
		return
	}
	s.serve(&client{in: conn, out: conn, limit: conn.SetWriteDeadline, close: conn.Close})
}
