package session

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

const (
	exitPoll      = 50 * time.Millisecond // bounds how long the end of a recording waits for the watch
	exitTimeout   = 2 * time.Second       // for a target that has begun to exit
	departTimeout = time.Second           // for one that may be leaving its address space
)

// An exitWatch notices the end of the target. Its goroutine, run, writes; every goroutine may
// read.
type exitWatch struct {
	target   *target.Target // set before run starts, and not changed
	gone     chan struct{}  // closed when the target has exited, or has executed another program
	executed atomic.Bool    // it has executed another program
}

// run returns when the target is gone, or finished is closed. A process that executes another
// program is another process.
func (w *exitWatch) run(finished <-chan struct{}) {
	for !w.target.WaitExit(exitPoll) {
		if errors.Is(w.target.CheckIdentity(), target.ErrExec) {
			w.executed.Store(true)
			break
		}
		select {
		case <-finished:
			return
		default:
		}
	}
	close(w.gone)
}

func (w *exitWatch) isGone() bool {
	select {
	case <-w.gone:
		return true
	default:
		return !w.target.Alive()
	}
}

// isEnding also notices an exec that run has not seen yet, and an exit that is under way. It
// then waits for run to see it.
func (w *exitWatch) isEnding() bool {
	if w.isDeparting() {
		w.wait()
	}
	return w.isGone()
}

// isDeparting reports whether the target leaves its address space. In the middle of an exec a
// process has another address space already, and the one that we know still exists.
func (w *exitWatch) isDeparting() bool {
	for deadline := time.Now().Add(departTimeout); ; time.Sleep(time.Millisecond) {
		if w.target.CheckIdentity() != nil || w.target.Leaving() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// wait gives a process that is exiting a while to be gone, and reports whether it is.
func (w *exitWatch) wait() bool {
	select {
	case <-w.gone:
		return true
	case <-time.After(exitTimeout):
		return false
	}
}
