// Package watchdog gives a target up if a thread of this tool hangs in its memory or on its
// filesystem. A process can serve the page faults of its memory (userfaultfd(2), files on FUSE)
// or its filesystem itself, and not answer: a thread that reads there then waits for ever, and
// only SIGKILL ends it. The tool returns an error and exits. This is safe: a stopped thread
// continues, and a payload without a recorder detaches by itself.
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

// Period is the time between checks of running work.
const Period = 250 * time.Millisecond

// Limit is the longest time for one call into a target. Tests that delay a session raise it.
var Limit = 20 * time.Second

// ErrStalled is the error for a call that has taken longer than Limit.
var ErrStalled = errors.New("timed out reading the target's memory")

// LeftAlone describes the state of a target that was given up during an attach.
const LeftAlone = "as found; a payload that it may have by now detaches by itself within seconds"

// Do runs work and returns its result, or a *failure.Error if a thread of this tool hangs in a
// target; this process must then exit. The failure names pid if the hanging thread's target is
// not known.
func Do[T any](pid int, work func() (T, error)) (T, error) {
	return Watch(func() *failure.Error {
		if max(target.Stalled(0).Time, ptrace.Busy()) <= Limit {
			return nil
		}
		if s := target.Stalled(0); s.PID != 0 { // work may read several targets
			pid = s.PID
		}
		return Failure(pid)
	}, work)
}

// Watch runs work and returns its result, or the first failure that stalled reports meanwhile.
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

// Hanging returns how long a thread of this tool has been in one call into a target; 0: none. It counts what is read beside a
// session: a thread that hangs there, too, does not change its privileges.
func Hanging() time.Duration {
	return max(target.StalledAtAll().Time, ptrace.Busy())
}

// Failure returns the error for a thread of this tool that hangs in pid or its filesystem.
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
