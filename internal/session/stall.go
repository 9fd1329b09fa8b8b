package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// A process can answer the page faults in its memory itself (userfaultfd(2),
// files on FUSE), and serve the filesystem that it lives on, or leave both
// unanswered: who reads there then waits for ever, deaf to all but SIGKILL. The
// tool gives up on it and ends. Its death is provided for: a thread that it has
// stopped goes on, and a payload detaches by itself.
const stallPeriod = 250 * time.Millisecond

// StallLimit is how long a call may take until then. Tests that hold a session up
// give it longer.
var StallLimit = 20 * time.Second

var errStalled = errors.New("it keeps us waiting")

const leftAlone = "as found; a payload that it may have by now detaches by itself within seconds"

// unlessStalled returns what work returns, or an error if a thread of ours hangs
// in a target's memory: the process must end then.
func unlessStalled[T any](pid int, work func() (T, error)) (T, error) {
	return unless(func() *Failure {
		if hanging() <= StallLimit {
			return nil
		}
		if s := target.Stalled(0); s.PID != 0 { // work may look at several
			pid = s.PID
		}
		return stallFailure(pid)
	}, work)
}

// unless returns what work returns, or what stalled says meanwhile.
func unless[T any](stalled func() *Failure, work func() (T, error)) (T, error) {
	type outcome struct {
		result T
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := work()
		done <- outcome{result, err}
	}()
	tick := time.NewTicker(stallPeriod)
	defer tick.Stop()
	for {
		select {
		case o := <-done:
			return o.result, o.err
		case <-tick.C:
		}
		if f := stalled(); f != nil {
			var none T
			return none, f
		}
	}
}

// hanging is how long a thread of ours has been at one thing in a target.
func hanging() time.Duration {
	return max(target.Stalled(0).Time, ptrace.Busy())
}

// hanging is how long a thread of this recording's has been.
func (r *recording) hanging() time.Duration {
	return max(target.Stalled(r.o.PID).Time, r.tracer.Busy())
}

func (r *recording) stalled() *Failure {
	if r.hanging() > StallLimit {
		return stallFailure(r.o.PID)
	}
	return nil
}

// stallFailure is about what a thread of ours is still at.
func stallFailure(pid int) *Failure {
	cause := fmt.Sprintf("a page has not come for %s: it may answer its page faults itself (userfaultfd, FUSE), or hold its memory map", humanize.Duration(StallLimit))
	fix := "look at what the process does with its memory"
	if target.Stalled(pid).Source == target.Filesystem {
		cause = fmt.Sprintf("a filesystem in its root has not answered for %s (FUSE, or a network's)", humanize.Duration(StallLimit))
		fix = fmt.Sprintf("look at its mounts (/proc/%d/mountinfo): a server behind them does not answer", pid)
	}
	return &Failure{
		What: fmt.Sprintf("cannot look into pid %d: %v", pid, errStalled), Cause: cause, Fix: fix,
		Target: leftAlone, Code: Failed, Err: errStalled,
	}
}
