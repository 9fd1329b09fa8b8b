// Package register attaches AMD's own profiling tools to a process, by the protocol of
// rocprofiler-register: rocprofiler_register_attach(environment, tool) and
// rocprofiler_register_detach(), called in the process. The process must have been prepared for that when it
// started. The calls are made on a thread of this tool's own (inject.Held): no thread of the application runs
// them. If this tool dies, that thread detaches.
package register

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/envbuf"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// toolVariable tells rocprofiler-sdk in the target which tool it has.
const toolVariable = "ROCPROF_ATTACH_TOOL_LIBRARY"

// Options of one attach. A zero time means the default.
type Options struct {
	Tool        string // the tool libraries, absolute paths in the target with colons between them; "": rocprofiler-sdk's
	Environment []envbuf.Var

	AttachTimeout time.Duration // for rocprofiler_register_attach (1 min)
	DetachTimeout time.Duration // for rocprofiler_register_detach, in which a tool may write its output (5 min)
	IdleTimeout   time.Duration // without a sign of life for so long, the target detaches by itself (5 s)
}

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		at *time.Duration
		by time.Duration
	}{
		{&o.AttachTimeout, time.Minute},
		{&o.DetachTimeout, 5 * time.Minute},
		{&o.IdleTimeout, 5 * time.Second},
	} {
		if *d.at == 0 {
			*d.at = d.by
		}
	}
	return o
}

// Session is an attach of a tool to a process.
type Session struct {
	Tool   string // the tool libraries
	Report *inject.Report

	o         Options
	target    *target.Target
	tracer    *ptrace.Tracer
	lock      *target.Lock
	held      *inject.Held
	found     libraries
	functions functions
}

// Attach attaches a tool to a process and returns once the tool is active there. On an error no tool is active,
// unless the error contains an inject.RemainsError. The caller must call Detach.
func Attach(ctx context.Context, pid int, o Options) (*Session, error) {
	s, err := open(pid, o)
	if err != nil {
		return nil, err
	}
	if err := s.chooseTool(); err != nil {
		s.close()
		return nil, err
	}
	if err := s.attach(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// DetachFrom calls rocprofiler_register_detach in a process to which another tool, or one that has died, has
// attached.
func DetachFrom(ctx context.Context, pid int, o Options) error {
	s, err := open(pid, o)
	if err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		s.close()
		return err
	}
	return s.Detach()
}

// open makes the checks that touch nothing, and keeps other tools away from the process.
func open(pid int, o Options) (*Session, error) {
	t, err := target.Open(pid)
	if err != nil {
		return nil, err
	}
	s := &Session{o: o.withDefaults(), target: t, tracer: ptrace.NewTracer()}
	if err := s.check(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *Session) check() error {
	facts, err := s.target.Preflight()
	if err != nil {
		return err
	}
	for _, problem := range facts.Problems {
		if !errors.Is(problem, target.ErrNoHSA) {
			return problem
		}
	}
	if s.lock, err = s.target.Lock(); err != nil {
		return err
	}
	if err := checkRecorded(s.target); err != nil {
		return err
	}
	maps, err := s.target.Maps()
	if err != nil {
		return err
	}
	found := find(maps)
	if s.functions, err = found.functionsOf(s.target); err != nil {
		return err
	}
	if len(found.attach) == 0 {
		return ErrNotPrepared
	}
	s.found = found
	return nil
}

// chooseTool finds the tool, and makes sure that the process finds what it has to load.
func (s *Session) chooseTool() (err error) {
	if err = s.found.checkSDK(s.target); err == nil {
		s.Tool, err = s.found.toolFor(s.target, s.o.Tool)
	}
	return err
}

// checkRecorded refuses a process with an active session of the payload's.
func checkRecorded(t *target.Target) error {
	c, err := resident.Open(t)
	if err != nil {
		return nil // none is resident
	}
	state := c.Snapshot().State
	if err := c.Close(); err != nil {
		return err
	}
	if state != ring.StateIdle && state != ring.StateDormant {
		return ErrRecorded
	}
	return nil
}

// enter makes the thread that calls rocprofiler-register.
func (s *Session) enter(ctx context.Context) (err error) {
	s.held, s.Report, err = inject.Hold(ctx, s.target, s.tracer, s.o.IdleTimeout)
	return err
}

func (s *Session) attach(ctx context.Context) error {
	environment, err := envbuf.Encode(append(slices.Clone(s.o.Environment), envbuf.Var{Name: toolVariable, Value: s.Tool}))
	if err != nil {
		return err
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	if err := s.held.Watch(s.functions.detach); err != nil {
		return errors.Join(err, s.held.Release())
	}
	// Not with ctx: a call that has begun is waited for, then the caller can detach.
	status, err := s.held.CallText(context.Background(), s.functions.attach, environment, s.Tool, "return from "+attachFunction, s.o.AttachTimeout)
	if err != nil {
		return s.giveUp(err, "a call of "+attachFunction+" (once it returns, the process detaches by itself)")
	}
	if Status(status) != Success {
		err := &StatusError{attachFunction, Status(status)}
		return errors.Join(err, s.held.Watch(0), s.held.Release())
	}
	return nil
}

// giveUp leaves a call that does not return to the thread in the target.
func (s *Session) giveUp(err error, what string) error {
	var late *inject.TimeoutError
	if !errors.As(err, &late) {
		return errors.Join(err, s.held.Release())
	}
	s.held.Abandon()
	return errors.Join(err, &inject.RemainsError{What: what})
}

// Lost returns a channel that is closed when the process has exited, or has detached by itself because it
// took this tool for dead.
func (s *Session) Lost() <-chan struct{} { return s.held.Lost() }

// Detach detaches the tool, waits until it has done what it does then, and removes everything of this tool's
// from the process.
func (s *Session) Detach() error {
	defer s.close()
	if err := s.held.Watch(0); err != nil { // from here on a dead tool leaves the detach to this call
		return errors.Join(err, s.held.Release())
	}
	status, err := s.held.CallText(context.Background(), s.functions.detach, nil, "", "return from "+detachFunction, s.o.DetachTimeout)
	if err != nil {
		return s.giveUp(err, "a call of "+detachFunction+" (a tool may still write its output)")
	}
	err = s.held.Release()
	if Status(status) != Success {
		err = errors.Join(&StatusError{detachFunction, Status(status)}, err)
	}
	return err
}

func (s *Session) close() {
	s.tracer.Close()
	if s.lock != nil {
		s.lock.Release()
	}
	s.target.Close()
}
