package session

import (
	"errors"
	"fmt"
	"time"

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

// Detach ends the sessions on pid and on its descendants. It asks a live recorder to finish
// its trace; without a recorder the payload detaches at once. Without yes, Detach refuses if
// the sessions are on several servers below pid. Errors are *failure.Error.
func Detach(pid int, yes bool, ui GroupObserver) error {
	_, err := watchdog.Do(pid, func() (struct{}, error) { return struct{}{}, detachTree(pid, yes, ui) })
	return err
}

// detach ends the session on pid, if the process was started at startTicks; 0: any.
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
		o: Options{Request: preflight.Request{PID: pid}}, Preflight: preflight.Preflight{Target: t}, ui: ui, tracer: tracer,
		watch: exitWatch{target: t, gone: make(chan struct{})}, link: link{control: c}, phase: phase{attached: true},
		finished: make(chan struct{}),
	}
	c.GiveUpWhen(r.watch.gone)
	r.background.Go(func() { r.watch.run(r.finished) })
	defer func() {
		close(r.finished)
		r.background.Wait()
	}()
	err = r.detachFor(time.Now().Add(handOver))
	switch {
	case err != nil && r.watch.isEnding():
		r.reportGone()
	case err != nil:
		return failure.Explain("detach from", pid, err, "still attached")
	}
	return nil
}

const hasExited = "the process has exited meanwhile"

// reportGone reports that the process has ended.
func (r *recording) reportGone() {
	if r.watch.executed.Load() {
		r.ui.Detached("the process has executed another program meanwhile")
		return
	}
	r.ui.Detached(hasExited)
}

// detachFor asks the recorder to finish, or ends the session itself if the recorder is
// dead. It needs the deadline because a hostile target writes its recorder's pid, and could
// name one after the other.
func (r *recording) detachFor(deadline time.Time) error {
	if holder, held := r.link.control.Holder(); held && resident.IsAlive(r.link.control)(holder) {
		r.link.control.RequestStop()
		if err := testpoint.Pass(testpoint.Stopping); err != nil {
			return err
		}
		return r.awaitIdle(holder, deadline)
	}
	return r.detachOrphan()
}

// detachOrphan ends a session that has no recorder. It takes both locks: only the holder of
// both may send commands.
func (r *recording) detachOrphan() error {
	lock, err := r.Target.Lock()
	if err != nil {
		return err
	}
	defer lock.Release()
	s := r.link.control.Snapshot()
	if idle := s.State == ring.StateIdle || s.State == ring.StateDormant; idle && s.HooksBuried == 0 {
		r.ui.Detached("nothing to do: no session is active, and the payload is dormant")
		return nil
	}
	me, err := resident.Self()
	if err != nil {
		return err
	}
	held, _, err := r.link.control.TakeLock(me, resident.IsAlive(r.link.control))
	if err != nil {
		return err
	}
	defer held.Release()
	r.link.held = held
	r.background.Go(func() { r.link.beat(r.finished) })
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
	beat := resident.WatchHeartbeat(r.link.control)
	for state := r.link.control.Snapshot().State; ; state = r.link.control.WaitState(state, watchPeriod) {
		_, held := r.link.control.Holder()
		silent := beat.Silence()
		idle := state == ring.StateIdle || state == ring.StateDormant
		switch {
		case r.watch.isGone():
			r.reportGone()
			return nil
		case idle && !held:
			r.ui.Detached(fmt.Sprintf("the recording has ended, as its recorder (pid %d) was asked to do", holder.PID))
			return nil
		case (!resident.LooksAlive(holder) || resident.IsForeign(holder) && silent > resident.HeartbeatTimeout()) && time.Now().Before(deadline):
			return r.detachFor(deadline) // the recorder died before it had finished
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
