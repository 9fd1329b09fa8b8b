package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
)

const (
	detachTimeout = 25 * time.Second // with the drain, from the last record on; longer than the payload's own deadlines
	handOver      = 30 * time.Second // for another recorder to finish its trace
)

// detach ends the session if it is active, and checks that it has ended.
func (r *recording) detach() error {
	if !r.phase.attached || r.watch.isGone() {
		return nil
	}
	if r.link.isLost() {
		r.phase.attached = false // see errIfTakenOver
		return nil
	}
	if err := testpoint.Pass(testpoint.Closing); err != nil {
		return err
	}
	if err := r.end(ring.EndDetach); err != nil && !r.watch.isEnding() {
		return err
	}
	r.phase.attached = false
	s := r.link.control.Snapshot()
	switch {
	case r.watch.isGone():
		return nil
	case s.HooksPatched != 0:
		return fmt.Errorf("still redirected: %s of the runtime", humanize.Things(s.HooksPatched, "function"))
	}
	r.phase.detached = true
	r.reportDetached()
	return testpoint.Pass(testpoint.Detached)
}

// errIfTakenOver returns an error if another recorder took over: this tool does not know
// how the recording ended.
func (r *recording) errIfTakenOver() error {
	if r.phase.detached || !r.link.isLost() {
		return nil
	}
	return failure.ErrTakenOver
}

// reportDetached reports which hooks were removed.
func (r *recording) reportDetached() {
	if n := r.link.control.Snapshot().HooksBuried; n != 0 {
		r.ui.Warn(fmt.Sprintf("another tool has patched over %s of ours: left in its chain, passing through; "+
			"once that tool is gone, `rtl-attach detach %d` removes what is left", humanize.Things(n, "hook"), r.o.PID))
		r.ui.Detached("the other hooks removed, " + r.pausedFor())
		return
	}
	r.ui.Detached("hooks removed, " + r.pausedFor())
}

// pausedFor describes the stops of the detach, if any.
func (r *recording) pausedFor() string {
	if r.phase.entered {
		return "a thread paused for it"
	}
	return "nothing paused"
}

// end commands the detach. If the control thread does not answer, it calls the exported
// entry point by ptrace.
func (r *recording) end(why ring.End) error {
	if r.link.isLost() {
		return failure.ErrTakenOver
	}
	stop := r.skipWhenAsked()
	defer stop()
	err := r.link.control.Ping(r.pingTimeout())
	if err == nil {
		err = r.link.control.Detach(why, detachTimeout, r.taken)
	}
	if errors.Is(err, ring.ErrNoAnswer) && !r.watch.isGone() {
		r.ui.Warn("the payload's control thread does not answer: calling its entry point instead")
		r.phase.entered = true
		err = r.call(context.Background(), "rtl_detach", nil, nil)
	}
	var refused *ring.CommandError
	if errors.As(err, &refused) && refused.Errno == unix.EALREADY {
		return nil // the session has ended by itself meanwhile
	}
	return err
}

// pingTimeout returns how long the control thread may take to answer. With a schedule it may be at
// work: it ends a window, with its drain.
func (r *recording) pingTimeout() time.Duration {
	if len(r.o.Schedule) > 0 {
		return detachTimeout
	}
	return wedgedTimeout
}

// skipWhenAsked skips the drain if the user requests that before stop is called.
func (r *recording) skipWhenAsked() (stop func()) {
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-r.skip:
			r.link.control.SkipDrain()
		case <-done:
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}
