package inject

import (
	"errors"
	"fmt"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
)

// ErrNoThread means that every thread is running, about to end, on a foreign stack, or
// does not stop.
var ErrNoThread = errors.New("no thread of it can be used")

// ErrLeft means that the bootstrap thread received no command for too long, for example
// because the tool was stopped, and has cleaned up and ended.
var ErrLeft = errors.New("the bootstrap thread timed out waiting for a command, and ended")

// TimeoutError means that the target did not finish a step in time.
type TimeoutError struct {
	PID   int
	Step  string // "map memory", "start a thread", "load the payload", ...
	After time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("pid %d did not %s within %s", e.PID, e.Step, humanize.Duration(e.After))
}

// LoadError is the error with which the target's dynamic loader refused the payload.
type LoadError struct {
	Path string
	Text string // dlerror()
}

func (e *LoadError) Error() string { return e.Text }

// BootError is a call in the target, for the bootstrap, that failed.
type BootError struct {
	Call string
	Err  error
}

func (e *BootError) Error() string { return fmt.Sprintf("%s in the target: %v", e.Call, e.Err) }

func (e *BootError) Unwrap() error { return e.Err }

// DiedError means that the target ended during a step.
type DiedError struct {
	Step string
	Err  error
}

func (e *DiedError) Error() string { return fmt.Sprintf("%s: %v", e.Step, e.Err) }

func (e *DiedError) Unwrap() error { return e.Err }

// RemainsError means that something of the tool's is still in the target.
type RemainsError struct {
	What string
	Err  error // why the tool could not remove it; may be nil
}

func (e *RemainsError) Error() string {
	if e.Err == nil {
		return e.What + " remains in the target"
	}
	return fmt.Sprintf("%s remains in the target: %v", e.What, e.Err)
}

func (e *RemainsError) Unwrap() error { return e.Err }
