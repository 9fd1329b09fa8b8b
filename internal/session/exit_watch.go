package session

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/target"
)

const (
	exitPoll      = 50 * time.Millisecond // limits how long the end of a recording waits for the watch
	exitTimeout   = 2 * time.Second       // for a target that has begun to exit
	departTimeout = time.Second           // for one that may be leaving its address space
)

// exitWatch notices the end of the target. Only its goroutine, run, writes the fields; every
// goroutine may read them.
type exitWatch struct {
	target   *target.Target // set before run starts, then constant
	gone     chan struct{}  // closed when the target has exited, or has executed another program
	executed atomic.Bool    // it has executed another program
}

// run returns when the target has exited, or finished is closed. It treats an exec as an
// exit.
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

// isEnding reports whether the target has ended. It also notices an exec or an exit that run
// has not seen yet, and then waits for run to see it.
func (w *exitWatch) isEnding() bool {
	if w.isDeparting() {
		w.wait()
	}
	return w.isGone()
}

// isDeparting reports whether the target is leaving its address space. During an exec a
// process already has a new address space while the old one still exists.
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

// wait waits up to exitTimeout for an exiting process, and reports whether it has exited.
func (w *exitWatch) wait() bool {
	select {
	case <-w.gone:
		return true
	case <-time.After(exitTimeout):
		return false
	}
}
