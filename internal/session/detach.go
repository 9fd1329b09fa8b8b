package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
)

const (
	detachTimeout = 25 * time.Second // the drain included, from the last record on; the payload's own deadlines end before
	handOver      = 30 * time.Second // for another recorder to finish its trace
)

// detach ends the session if it is active, and makes sure of it.
func (r *recording) detach() error {
	if !r.attached || r.isGone() {
		return nil
	}
	if r.lostRecorderLock() {
		r.attached = false // see errIfTakenOver
		return nil
	}
	if err := testpoint.Pass(testpoint.Closing); err != nil {
		return err
	}
	if err := r.end(ring.EndDetach); err != nil && !r.targetIsGone() {
		return err
	}
	r.attached = false
	s := r.control.Snapshot()
	switch {
	case r.isGone():
		return nil
	case s.HooksPatched != 0:
		return fmt.Errorf("still redirected: %s of the runtime", humanize.Things(s.HooksPatched, "function"))
	}
	r.detached = true
	r.reportDetached()
	return testpoint.Pass(testpoint.Detached)
}

// lostRecorderLock reports whether another recorder may command the target by now.
func (r *recording) lostRecorderLock() bool { return r.held != nil && !r.held.Held() }

// errIfTakenOver returns an error where another recorder took over: how the recording ended is not known here.
func (r *recording) errIfTakenOver() error {
	if r.detached || !r.lostRecorderLock() {
		return nil
	}
	return failure.ErrTakenOver
}

// reportDetached tells what became of the hooks.
func (r *recording) reportDetached() {
	if n := r.control.Snapshot().HooksBuried; n != 0 {
		r.ui.Warn(fmt.Sprintf("another tool has patched over %s of ours: left in its chain, passing through; "+
			"once that tool is gone, `rtl-attach detach %d` removes what is left", humanize.Things(n, "hook"), r.o.PID))
		r.ui.Detached("the other hooks removed, " + r.pausedFor())
		return
	}
	r.ui.Detached("hooks removed, " + r.pausedFor())
}

// pausedFor says whether the detach has stopped anything.
func (r *recording) pausedFor() string {
	if r.entered {
		return "a thread paused for it"
	}
	return "nothing paused"
}

// end commands the detach; where the control thread gives no sign of life, the
// exported entry point is called by ptrace.
func (r *recording) end(why ring.End) error {
	if r.lostRecorderLock() {
		return failure.ErrTakenOver
	}
	stop := r.skipWhenAsked()
	defer stop()
	err := r.control.Ping(wedgedTimeout)
	if err == nil {
		err = r.control.Detach(why, detachTimeout, r.taken)
	}
	if errors.Is(err, ring.ErrNoAnswer) && !r.isGone() {
		r.ui.Warn("the payload's control thread does not answer: calling its entry point instead")
		r.entered = true
		err = r.call(context.Background(), "rtl_detach", nil, nil)
	}
	var refused *ring.CommandError
	if errors.As(err, &refused) && refused.Errno == unix.EALREADY {
		return nil // it has ended by itself meanwhile
	}
	return err
}

// skipWhenAsked passes the user's impatience on until stop is called.
func (r *recording) skipWhenAsked() (stop func()) {
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-r.skip:
			r.control.SkipDrain()
		case <-done:
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}

// Detach ends the sessions on pid and on what is below it from anywhere. A
// recorder that lives is asked to finish its trace; without one the payload
// detaches at once. Where sessions are on several servers below pid, it refuses without
// yes.
func Detach(pid int, yes bool, ui GroupObserver) error {
	_, err := watchdog.Do(pid, func() (struct{}, error) { return struct{}{}, detachTree(pid, yes, ui) })
	return err
}

// detach ends the session on pid if that is the process that began then; 0: any.
func detach(pid int, startTicks uint64, ui Observer) error {
	t, err := target.Open(pid)
	if err != nil {
		return failure.Explain("detach from", pid, err, failure.Untouched)
	}
	defer t.Close()
	if startTicks != 0 && t.StartTicks != startTicks {
		ui.Detached(hasExited)
		return nil
	}
	tracer := ptrace.NewTracer()
	defer tracer.Close()
	c, err := resident.Open(t)
	if errors.Is(err, resident.ErrNone) {
		return &failure.Error{
			What: fmt.Sprintf("nothing to detach from pid %d", pid), Code: failure.NotPermitted, Target: failure.Untouched,
			Cause: "no payload of rtl-attach is resident there", Fix: "rtl-attach status PID says what is in a process", Err: err,
		}
	}
	if err != nil {
		return failure.Explain("detach from", pid, err, failure.Untouched)
	}
	defer c.Close()
	r := &recording{
		o: Options{Request: preflight.Request{PID: pid}}, Preflight: preflight.Preflight{Target: t}, ui: ui, control: c, tracer: tracer,
		gone: make(chan struct{}), finished: make(chan struct{}), attached: true,
	}
	c.GiveUpWhen(r.gone)
	r.background.Go(r.watchExit)
	defer func() {
		close(r.finished)
		r.background.Wait()
	}()
	err = r.detachFor(time.Now().Add(handOver))
	switch {
	case err != nil && r.targetIsGone():
		r.reportGone()
	case err != nil:
		return failure.Explain("detach from", pid, err, "still attached")
	}
	return nil
}

const hasExited = "the process has exited meanwhile"

// reportGone: nothing of ours is left in it.
func (r *recording) reportGone() {
	if r.executed.Load() {
		r.ui.Detached("the process has executed another program meanwhile")
		return
	}
	r.ui.Detached(hasExited)
}

// detachFor asks the recorder that lives, or does its work. Until deadline: the
// target writes who its recorder is, and could name one after the other.
func (r *recording) detachFor(deadline time.Time) error {
	if holder, held := r.control.Holder(); held && resident.IsAlive(r.control)(holder) {
		r.control.RequestStop()
		if err := testpoint.Pass(testpoint.Stopping); err != nil {
			return err
		}
		return r.awaitIdle(holder, deadline)
	}
	return r.detachOrphan()
}

// detachOrphan ends a session that has no recorder. We hold both locks
// meanwhile: only their holder may send commands.
func (r *recording) detachOrphan() error {
	lock, err := r.Target.Lock()
	if err != nil {
		return err
	}
	defer lock.Release()
	s := r.control.Snapshot()
	if idle := s.State == ring.StateIdle || s.State == ring.StateDormant; idle && s.HooksBuried == 0 {
		r.ui.Detached("was not attached: the payload is dormant")
		return nil
	}
	me, err := resident.Self()
	if err != nil {
		return err
	}
	held, _, err := r.control.TakeLock(me, resident.IsAlive(r.control))
	if err != nil {
		return err
	}
	defer held.Release()
	r.held = held
	r.background.Go(r.beat)
	if err := errors.Join(testpoint.Pass(testpoint.Taken), testpoint.Pass(testpoint.Closing)); err != nil {
		return err
	}
	if err := r.end(ring.EndOtherTool); err != nil {
		return err
	}
	r.reportDetached()
	return testpoint.Pass(testpoint.Detached)
}

// awaitIdle waits for the recorder to finish.
func (r *recording) awaitIdle(holder ring.Holder, deadline time.Time) error {
	heart := resident.WatchHeartbeat(r.control)
	for state := r.control.Snapshot().State; ; state = r.control.WaitState(state, watchPeriod) {
		_, held := r.control.Holder()
		silent := heart.Silence()
		idle := state == ring.StateIdle || state == ring.StateDormant
		switch {
		case r.isGone():
			r.reportGone()
			return nil
		case idle && !held:
			r.ui.Detached(fmt.Sprintf("the recording has ended, as its recorder (pid %d) was asked to do", holder.PID))
			return nil
		case (!resident.LooksAlive(holder) || resident.IsForeign(holder) && silent > resident.HeartbeatTimeout()) && time.Now().Before(deadline):
			return r.detachFor(deadline) // it died over it
		case time.Now().After(deadline) && idle && silent > time.Second:
			r.ui.Detached(fmt.Sprintf("its recorder (pid %d) gives no sign of life, and has not finished its trace", holder.PID))
			return nil
		case time.Now().After(deadline) && idle:
			r.ui.Detached(fmt.Sprintf("its recorder (pid %d) still writes the trace", holder.PID))
			return nil
		case time.Now().After(deadline):
			return &failure.Error{
				What:   fmt.Sprintf("cannot detach from pid %d: its recorder does not finish", r.o.PID),
				Cause:  fmt.Sprintf("pid %d holds it, and was asked to finish %s ago", holder.PID, humanize.Duration(handOver)),
				Fix:    fmt.Sprintf("resume or end pid %d: without a recorder the payload detaches by itself", holder.PID),
				Target: "still attached", Code: failure.Failed,
			}
		}
	}
}
