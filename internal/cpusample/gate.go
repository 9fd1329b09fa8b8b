package cpusample

import (
	"errors"
	"time"
)

// patience is how long a goroutine waits for another one that reads a process's memory: the process can make it hang.
const patience = 2 * time.Second

// errHangs is the error of what waited longer.
var errHangs = errors.New("a thread of this tool hangs in the memory of a process")

// gate is a mutex with a time limit.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

// enter locks the gate, and reports whether it could in time.
func (g gate) enter(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case g <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

func (g gate) leave() { <-g }
