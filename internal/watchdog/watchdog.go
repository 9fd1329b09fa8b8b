// Package watchdog gives up on a target in whose memory, or on whose filesystem, a thread
// of this tool hangs. A process can answer the page faults in its memory itself
// (userfaultfd(2), files on FUSE), serve the filesystem that it lives on, or leave both
// unanswered: a thread that reads there then waits for ever, and only SIGKILL ends it. The
// tool returns an error and exits. That is safe: a thread that it has stopped goes on, and
// a payload without a recorder detaches by itself.
package watchdog

import (
	"errors"
	"fmt"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/target"
)

// Period is how often work under way is looked at.
const Period = 250 * time.Millisecond

// Limit is how long one call into a target may take. Tests that hold a session up
// raise it.
var Limit = 20 * time.Second

// ErrStalled is about a call that has taken longer than Limit.
var ErrStalled = errors.New("timed out reading the target's memory")

// LeftAlone is the state of a target that was given up while an attach was under way.
const LeftAlone = "as found; a payload that it may have by now detaches by itself within seconds"

// Do returns what work returns, or a *failure.Error if a thread of ours hangs in a
// target: this process must exit then. pid is the target that the failure names where
// the hanging thread does not tell.
func Do[T any](pid int, work func() (T, error)) (T, error) {
	return Watch(func() *failure.Error {
		if Hanging() <= Limit {
			return nil
		}
		if s := target.Stalled(0); s.PID != 0 { // work may look at several
			pid = s.PID
		}
		return Failure(pid)
	}, work)
}

// Watch returns what work returns, or the first failure that stalled reports meanwhile.
func Watch[T any](stalled func() *failure.Error, work func() (T, error)) (T, error) {
	type outcome struct {
		result T
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := work()
		done <- outcome{result, err}
	}()
	tick := time.NewTicker(Period)
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

// Hanging returns how long a thread of ours has been in one call into a target; 0: none is.
func Hanging() time.Duration {
	return max(target.Stalled(0).Time, ptrace.Busy())
}

// Failure explains that a thread of ours hangs in pid, or in its filesystem.
func Failure(pid int) *failure.Error {
	cause := fmt.Sprintf("a page has not come for %s: it may answer its page faults itself (userfaultfd, FUSE), or hold its memory map", humanize.Duration(Limit))
	fix := "look at what the process does with its memory"
	if target.Stalled(pid).Source == target.Filesystem {
		cause = fmt.Sprintf("a filesystem in its root has not answered for %s (FUSE, or a network's)", humanize.Duration(Limit))
		fix = fmt.Sprintf("look at its mounts (/proc/%d/mountinfo): a server behind them does not answer", pid)
	}
	return &failure.Error{
		What: fmt.Sprintf("cannot look into pid %d: %v", pid, ErrStalled), Cause: cause, Fix: fix,
		Target: LeftAlone, Code: failure.Failed, Err: ErrStalled,
	}
}
