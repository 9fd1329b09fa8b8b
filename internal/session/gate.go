package session

import (
	"errors"
	"sync"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

var errShut = errors.New("the recording was given up")

// A gate is a recording's way into its trace. It is shut for one that is given up
// while a thread of it hangs: the file is the others', or complete, when that goes on.
type gate struct {
	mu     sync.Mutex
	isShut bool
}

// shut returns when nothing passes any more.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isShut = true
}

func (g *gate) pass(write func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isShut {
		return errShut
	}
	return write()
}

// A gated is a session of the trace behind its recording's gate.
type gated struct {
	session *tracedb.Session
	gate    *gate
}

var _ collector.Sink = gated{}

// beginSession begins one in the trace.
func (r *recording) beginSession(info tracedb.SessionInfo) (gated, error) {
	s := gated{gate: &r.gate}
	err := r.gate.pass(func() (err error) {
		s.session, err = r.db.Begin(info)
		return err
	})
	return s, err
}

func (s gated) Agent(a tracedb.Agent) error {
	return s.gate.pass(func() error { return s.session.Agent(a) })
}

func (s gated) Queue(q tracedb.Queue) error {
	return s.gate.pass(func() error { return s.session.Queue(q) })
}

func (s gated) CodeObject(c tracedb.CodeObject) error {
	return s.gate.pass(func() error { return s.session.CodeObject(c) })
}

func (s gated) Launch(l tracedb.Launch) error {
	return s.gate.pass(func() error { return s.session.Launch(l) })
}

func (s gated) Dispatches(batch []tracedb.Dispatch) error {
	return s.gate.pass(func() error { return s.session.Dispatches(batch) })
}

func (s gated) Untimed(u tracedb.Untimed) error {
	return s.gate.pass(func() error { return s.session.Untimed(u) })
}

func (s gated) Copies(batch []tracedb.Copy) error {
	return s.gate.pass(func() error { return s.session.Copies(batch) })
}

func (s gated) Window(w tracedb.Window) error {
	return s.gate.pass(func() error { return s.session.Window(w) })
}

func (s gated) Mark(m tracedb.Mark) error {
	return s.gate.pass(func() error { return s.session.Mark(m) })
}

func (s gated) Lost(l tracedb.Loss) error {
	return s.gate.pass(func() error { return s.session.Lost(l) })
}

// unwritten passes a gate that is shut, too: it reads.
func (s gated) unwritten() uint64 { return s.session.Unwritten() }

func (s gated) EndUnwritten(e tracedb.End, missing tracedb.Loss) error {
	return s.gate.pass(func() error { return s.session.EndUnwritten(e, missing) })
}

func (s gated) Flush() error { return s.gate.pass(s.session.Flush) }

func (s gated) End(e tracedb.End) error {
	return s.gate.pass(func() error { return s.session.End(e) })
}

func (s gated) Counters(counters []tracedb.Counter) error {
	return s.gate.pass(func() error { return s.session.Counters(counters) })
}

func (s gated) Pause(p tracedb.Pause) error {
	return s.gate.pass(func() error { return s.session.Pause(p) })
}
