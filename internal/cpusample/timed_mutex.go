package cpusample

import (
	"errors"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
)

// patience is how long a goroutine waits for another one that reads a process's memory: the process can make it hang.
const patience = 2 * time.Second

// errHangs is the error of what waited longer.
var errHangs = errors.New("a thread of this tool hangs in the memory of the process")

// hungLosses are the losses of an observation that hangs: how much is missing is not known.
func hungLosses() []cputrace.Loss { return []cputrace.Loss{{Cause: errHangs.Error(), Events: 1}} }

// timedMutex is a mutex with a time limit.
type timedMutex chan struct{}

func newTimedMutex() timedMutex { return make(timedMutex, 1) }

// lock locks the mutex, and reports whether it could in time.
func (m timedMutex) lock(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case m <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

func (m timedMutex) unlock() { <-m }

// beginLimit is how long an observation may take to begin.
const beginLimit = 3 * time.Second

// stopper is an observation that can be given up.
type stopper interface {
	Stop()
	Close()
}

// inTime returns what begin returns, or errHangs if that takes too long: the process can make begin hang for ever. An
// observation that begins later is ended.
func inTime[T stopper](begin func() (T, error)) (begun T, err error) {
	type result struct {
		begun T
		err   error
	}
	taken, late := make(chan result), make(chan struct{})
	go func() {
		var r result
		r.begun, r.err = begin()
		select {
		case taken <- r:
		case <-late:
			if r.err == nil {
				r.begun.Stop()
				r.begun.Close()
			}
		}
	}()
	timer := time.NewTimer(beginLimit)
	defer timer.Stop()
	select {
	case r := <-taken:
		return r.begun, r.err
	case <-timer.C:
		close(late)
		return begun, errHangs
	}
}
