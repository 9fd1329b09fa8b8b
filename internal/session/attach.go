package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
)

const (
	answerTimeout = 15 * time.Second // for an arming: longer than the largest envbuf.GraceTimeout
	wedgedTimeout = 2 * time.Second  // for any answer of the control thread
	settlePeriod  = time.Millisecond // between polls of a payload that may make a grace request
	returnTimeout = 5 * time.Second  // for a runtime that was shut down during the attach
)

// attach makes the payload's session active. If the application shuts its runtime down
// meanwhile, attach waits up to returnTimeout for a restart. On an error no session is
// active.
func (r *recording) attach(ctx context.Context) error {
	env, err := r.o.environment()
	if err != nil {
		return err
	}
	_, _ = r.observers.recorder() // observe tells of a failure
	err = r.begin(ctx, env)
	for deadline := time.Now().Add(returnTimeout); r.link.held != nil && wasShutDown(err) && !over(ctx, deadline); {
		r.ui.Debug(failure.FirstLine(err) + ": once more")
		r.pauseUnlessOver(ctx, retryPeriod)
		if again := r.replaceSession(ctx, env); again == nil || !isWithoutRuntime(again) {
			err, r.phase.attached = again, again == nil
		}
	}
	return err
}

// wasShutDown reports whether an attach failed because the runtime was shut down
// meanwhile; isWithoutRuntime also whether it found no runtime.
func wasShutDown(err error) bool { return refusedWith(err, unix.ECANCELED) }

func isWithoutRuntime(err error) bool { return wasShutDown(err) || refusedWith(err, unix.ENODEV) }

func refusedWith(err error, errno unix.Errno) bool {
	var refused *ring.CommandError
	return errors.As(err, &refused) && refused.Errno == errno
}

// pauseUnlessOver waits for d, or until the user ends the recording or the target is gone.
func (r *recording) pauseUnlessOver(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-r.watch.gone:
	case <-time.After(d):
	}
}

// begin goes through the control block of a payload that is resident, or injects one.
func (r *recording) begin(ctx context.Context, env []byte) error {
	control, err := resident.Open(r.Target)
	if errors.Is(err, resident.ErrNone) {
		r.awaitBootstrap(ctx)
		control, err = resident.Open(r.Target)
	}
	switch {
	case err == nil:
		return r.reattach(ctx, control, env)
	case errors.Is(err, resident.ErrNone):
		return r.inject(ctx, env)
	}
	return err
}

// acquireRecorder takes the recorder lock of the payload, and starts the heartbeat.
func (r *recording) acquireRecorder(c *ring.Control) error {
	me, err := resident.Self()
	if err != nil {
		return err
	}
	held, holder, err := c.TakeLock(me, resident.IsAlive(c))
	if errors.Is(err, ring.ErrHeld) {
		return resident.HeldBy(r.Target, holder)
	}
	if err != nil {
		return err
	}
	if err := testpoint.Pass(testpoint.Taken); err != nil {
		held.Release()
		return err
	}
	r.link.control, r.link.held = c, held
	c.GiveUpWhen(r.watch.gone)
	r.background.Go(func() { r.link.beat(r.finished) })
	return nil
}

func (r *recording) inject(ctx context.Context, env []byte) error {
	r.meter.watch(r.o.PID)
	r.stacks.code = nil
	rep, err := r.enter(ctx, env)
	r.notePauses(rep, "attach")
	var remains *inject.RemainsError
	if errors.Is(err, inject.ErrLeft) && !errors.As(err, &remains) && r.link.held == nil && ctx.Err() == nil {
		r.ui.Debug(failure.FirstLine(err) + ": once more")
		rep, err = r.enter(ctx, env)
		r.notePauses(rep, "attach")
	}
	if err != nil {
		return errors.Join(err, r.rollbackSession())
	}
	if rep.EntryResult != 0 {
		return r.entryFailed(rep.EntryResult)
	}
	if r.link.held == nil {
		r.progress()
	}
	if r.link.held == nil {
		return fmt.Errorf("the payload is loaded, but its control block cannot be used: %w", resident.ErrNone)
	}
	r.phase.attached = true
	return nil
}

// rollbackSession ends a session that an entry or a command has begun after the tool had
// stopped waiting for it.
func (r *recording) rollbackSession() error {
	if r.link.held == nil {
		r.progress()
	}
	if r.link.held == nil || r.link.isLost() {
		return nil // there is no payload, or this tool may not command it
	}
	if state, err := r.settle(); err != nil || !state.IsRecording() {
		return err
	}
	return r.end(ring.EndDetach)
}

// settle waits until the payload neither arms nor drains, and returns its state. An entry
// that a dead tool has called continues to arm without the tool.
func (r *recording) settle() (ring.State, error) {
	state := r.link.control.Snapshot().State
	for deadline := time.Now().Add(answerTimeout); time.Now().Before(deadline); {
		if state != ring.StateArming && state != ring.StateDraining {
			return state, nil
		}
		if err := r.Target.CheckIdentity(); err != nil {
			return state, err
		}
		r.stacks.answer(r.link.control)
		state = r.link.control.WaitState(state, settlePeriod)
	}
	return state, errors.New("the payload does not finish what it began")
}

// progress is called while the entry runs: it maps the control block as soon as that
// exists, and answers grace requests.
func (r *recording) progress() {
	if r.link.held == nil {
		c, err := resident.Open(r.Target)
		if err != nil {
			return
		}
		if err := r.acquireRecorder(c); err != nil {
			r.ui.Debug("control block: " + failure.FirstLine(err))
			_ = c.Close()
			return
		}
	}
	r.stacks.answer(r.link.control)
}

// entryFailed adds the payload's message to the error number that its entry returned.
func (r *recording) entryFailed(result int32) error {
	failure := &ring.CommandError{Errno: unix.Errno(-result)}
	if c, err := resident.Open(r.Target); err == nil {
		failure.Text = c.Snapshot().ErrorText
		_ = c.Close()
	}
	return failure
}

func (r *recording) reattach(ctx context.Context, c *ring.Control, env []byte) error {
	if err := r.acquireRecorder(c); err != nil {
		return errors.Join(err, c.Close())
	}
	r.noteBuild(c.Snapshot())
	err := r.replaceSession(ctx, env)
	if errors.Is(err, unix.EALREADY) { // a dead tool's entry was faster than this command
		err = r.replaceSession(ctx, env)
	}
	r.phase.attached = err == nil
	return err
}

// replaceSession begins a session. It first ends a session that has no recorder any more.
func (r *recording) replaceSession(ctx context.Context, env []byte) error {
	state, err := r.settle()
	if err != nil {
		return err
	}
	if state.IsRecording() {
		r.ui.Warn("a session without a recorder is still active: ending it")
		if err := r.end(ring.EndRecorderDead); err != nil {
			return err
		}
	}
	return r.arm(ctx, env)
}

// arm begins a session of the resident payload. On an error this tool has no active session.
func (r *recording) arm(ctx context.Context, env []byte) error {
	err := r.startSession(ctx, env)
	if err == nil || errors.Is(err, unix.EALREADY) || r.Target.CheckIdentity() != nil {
		return err // EALREADY: the active session is another tool's
	}
	return errors.Join(err, r.rollbackSession())
}

// startSession begins a session by command or, if the control thread does not answer,
// through the entry point.
func (r *recording) startSession(ctx context.Context, env []byte) error {
	if r.link.isLost() {
		return failure.ErrTakenOver
	}
	r.stacks.code = nil // libraries may have been loaded and unloaded since the last session
	if err := r.link.control.Ping(wedgedTimeout); errors.Is(err, ring.ErrNoAnswer) {
		if r.watch.isEnding() {
			return fmt.Errorf("pid %d: %w", r.o.PID, target.ErrGone)
		}
		r.ui.Warn("the payload's control thread does not answer: calling its entry point instead")
		return r.call(ctx, "rtl_reattach", env, r.progress)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		r.stacks.serve(r.link.control, stop)
	}()
	err := r.link.control.Reattach(env, answerTimeout)
	if errors.Is(err, ring.ErrNoAnswer) { // it may have taken the command at that moment: its state says so once it answers
		_ = r.link.control.Ping(wedgedTimeout)
	}
	close(stop)
	<-stopped
	if gone := r.Target.CheckIdentity(); errors.Is(err, ring.ErrNoAnswer) && gone != nil {
		return fmt.Errorf("%w: %w", gone, err)
	}
	return err
}

// call runs an entry point of the resident payload by ptrace.
func (r *recording) call(ctx context.Context, entry string, env []byte, progress func()) error {
	r.restorePrivileges()
	r.meter.watch(r.o.PID)
	addr, err := resident.EntryPoint(r.Target, entry)
	if err != nil {
		return err
	}
	rep, err := inject.Inject(ctx, r.Target, r.tracer, inject.Request{EntryAddr: addr, Env: env, Progress: progress})
	r.notePauses(rep, entry)
	if err != nil {
		return err
	}
	if rep.EntryResult != 0 {
		return &ring.CommandError{Errno: unix.Errno(-rep.EntryResult), Text: r.link.control.Snapshot().ErrorText}
	}
	return nil
}
