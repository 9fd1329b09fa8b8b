// Package attach records the GPU timeline of ROCm processes that are already running, and leaves them as they
// were. The command rtl-attach records through this package.
//
// Process attaches to one process, and to the GPU-using processes below it:
//
//	s, err := attach.Process(ctx, pid, attach.Options{Output: "trace.db"})
//	if err != nil {
//		return err
//	}
//	…                      // the time to record
//	s.Stop()
//	result, err := s.Wait() // the trace is complete
//
// The trace is an SQLite file (tracedb/schema.sql documents its tables and views). The package prints nothing, and
// changes nothing in the program that uses it, with two exceptions: it takes the real-time signal 64, and while a
// thread of a target is stopped, a timer of the kernel ends the program if that lasts for 25 seconds, so that the
// target continues.
//
// It needs a build with the payload: run make payload in the module's folder first. Then `go build` embeds it.
package attach

import (
	"context"
	"regexp"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/session"
)

// Selection selects the processes to record together.
type Selection struct {
	PIDs        []int
	Name        *regexp.Regexp // also processes with such a command line; nil: none
	Descendants bool           // also GPU-using descendants: a server's workers
	All         bool           // also if the descendants of a pid belong to several servers
}

// Process records the process with this pid and its GPU-using descendants. It returns when they are attached to, or
// with an *Error. When ctx is done, the recording ends, as by Stop.
func Process(ctx context.Context, pid int, o Options) (*Session, error) {
	return Processes(ctx, Selection{PIDs: []int{pid}, Descendants: true}, o)
}

// Processes records several processes into one trace. If some of them cannot be recorded, the observer gets the
// reasons, and the others are recorded.
func Processes(ctx context.Context, which Selection, o Options) (*Session, error) {
	s, err := Begin(ctx, which, o)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.attached:
		return s, nil
	case <-s.done:
	}
	if s.err != nil {
		return nil, s.err
	}
	return s, nil // attached, and ended at once
}

// Begin is Processes without the wait for the attach: Wait returns its errors, too.
func Begin(ctx context.Context, which Selection, o Options) (*Session, error) {
	engine, err := o.session()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Session{
		cancel: cancel, skip: make(chan struct{}), attached: make(chan struct{}), done: make(chan struct{}), watch: &session.Watch{},
	}
	engine.Watch = s.watch
	if engine.Commands == nil {
		engine.Commands = session.NewCommands()
	}
	s.commands = engine.Commands
	go s.run(ctx, engine, which, o.Observer)
	return s, nil
}

// Session is a recording in progress. Its methods may be called from any goroutine.
type Session struct {
	cancel   context.CancelFunc
	skip     chan struct{} // closed: the end does not wait for kernels that still run
	skipOnce sync.Once
	attached chan struct{} // closed: attached
	done     chan struct{} // closed: result and err are known
	watch    *session.Watch
	commands *session.Commands
	result   Result
	err      error
}

func (s *Session) run(ctx context.Context, o session.Options, which Selection, to Observer) {
	defer close(s.done)
	defer s.cancel()
	selection := discover.Selection{PIDs: which.PIDs, Name: which.Name, Tree: which.Descendants, Yes: which.All, Ranks: o.Filter}
	outcome, err := session.RecordAll(ctx, o, selection, s.skip, &observer{Observer: to, session: s})
	s.result, s.err = resultOf(outcome), err
}

// Stop ends the recording: the tool detaches, and completes the trace. It does not wait for that; Wait does.
func (s *Session) Stop() { s.cancel() }

// SkipDrain makes the end of the recording not wait for kernels that still run: they have no times then.
func (s *Session) SkipDrain() { s.skipOnce.Do(func() { close(s.skip) }) }

// Attached returns a channel that is closed when the processes are attached to. After Process it is.
func (s *Session) Attached() <-chan struct{} { return s.attached }

// Done returns a channel that is closed when the recording is over.
func (s *Session) Done() <-chan struct{} { return s.done }

// Wait waits until the recording is over, and returns its result. An error is an *Error; the result then says
// whether there is a trace, nevertheless.
func (s *Session) Wait() (Result, error) {
	<-s.done
	return s.result, s.err
}

// flushPeriod is the time between two looks at what the trace has. The recorder commits twice a second.
const flushPeriod = 20 * time.Millisecond

// Flush waits until everything that the GPUs had done when it was called is in the trace file, and can be read by
// other processes there. It returns ctx's error if ctx is done before.
//
// This process must not open the file until Wait has returned: closing it would release the recorder's locks
// (fcntl(2), "Advisory record locking").
func (s *Session) Flush(ctx context.Context) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return err
	}
	tick := time.NewTicker(flushPeriod)
	defer tick.Stop()
	for s.watch.RecordedUntilNS() < uint64(now.Nano()) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.done:
			return nil // complete
		case <-tick.C:
		}
	}
	return nil
}
