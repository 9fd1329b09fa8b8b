package session

import (
	"errors"
	"sync"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

var errRevoked = errors.New("the recording was given up")

// A writeGuard lets a recording write its trace. It is revoked for one that is given up
// while a thread of it hangs: the file is the others', or complete, when that goes on.
type writeGuard struct {
	mu      sync.Mutex
	revoked bool
}

// revoke returns when nothing passes any more.
func (g *writeGuard) revoke() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.revoked = true
}

func (g *writeGuard) pass(write func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.revoked {
		return errRevoked
	}
	return write()
}

// A guardedSession is a session of the trace behind its recording's guard.
type guardedSession struct {
	session *tracedb.Session
	guard   *writeGuard
}

var _ collector.Sink = guardedSession{}

// beginSession begins one in the trace.
func (r *recording) beginSession(info tracedb.SessionInfo) (guardedSession, error) {
	s := guardedSession{guard: &r.guard}
	err := r.guard.pass(func() (err error) {
		s.session, err = r.db.Begin(info)
		return err
	})
	return s, err
}

func (s guardedSession) Agent(a tracedb.Agent) error {
	return s.guard.pass(func() error { return s.session.Agent(a) })
}

func (s guardedSession) Queue(q tracedb.Queue) error {
	return s.guard.pass(func() error { return s.session.Queue(q) })
}

func (s guardedSession) CodeObject(c tracedb.CodeObject) error {
	return s.guard.pass(func() error { return s.session.CodeObject(c) })
}

func (s guardedSession) Launch(l tracedb.Launch) error {
	return s.guard.pass(func() error { return s.session.Launch(l) })
}

func (s guardedSession) Dispatches(batch []tracedb.Dispatch) error {
	return s.guard.pass(func() error { return s.session.Dispatches(batch) })
}

func (s guardedSession) Untimed(u tracedb.Untimed) error {
	return s.guard.pass(func() error { return s.session.Untimed(u) })
}

func (s guardedSession) Copies(batch []tracedb.Copy) error {
	return s.guard.pass(func() error { return s.session.Copies(batch) })
}

func (s guardedSession) Window(w tracedb.Window) error {
	return s.guard.pass(func() error { return s.session.Window(w) })
}

func (s guardedSession) Mark(m tracedb.Mark) error {
	return s.guard.pass(func() error { return s.session.Mark(m) })
}

func (s guardedSession) Lost(l tracedb.Loss) error {
	return s.guard.pass(func() error { return s.session.Lost(l) })
}

// unwritten is not guarded: it reads.
func (s guardedSession) unwritten() uint64 { return s.session.Unwritten() }

func (s guardedSession) EndUnwritten(e tracedb.End, missing tracedb.Loss) error {
	return s.guard.pass(func() error { return s.session.EndUnwritten(e, missing) })
}

func (s guardedSession) Flush() error { return s.guard.pass(s.session.Flush) }

func (s guardedSession) End(e tracedb.End) error {
	return s.guard.pass(func() error { return s.session.End(e) })
}

func (s guardedSession) Counters(counters []tracedb.Counter) error {
	return s.guard.pass(func() error { return s.session.Counters(counters) })
}

func (s guardedSession) Pause(p tracedb.Pause) error {
	return s.guard.pass(func() error { return s.session.Pause(p) })
}
