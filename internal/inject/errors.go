package inject

import (
	"errors"
	"fmt"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
)

// ErrNoThread: every thread is busy, about to end, on a foreign stack, or does
// not stop.
var ErrNoThread = errors.New("no thread can be borrowed")

// ErrLeft: the bootstrap thread heard nothing for too long, because the tool
// was stopped, say, and has cleaned up and left.
var ErrLeft = errors.New("the bootstrap thread has given us up and left")

// TimeoutError: the target did not do a step within its time.
type TimeoutError struct {
	PID   int
	Step  string // "map memory", "start a thread", "load the payload", ...
	After time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("pid %d did not %s within %s", e.PID, e.Step, humanize.Duration(e.After))
}

// LoadError is the target's own loader's refusal of the payload.
type LoadError struct {
	Path string
	Text string // dlerror()
}

func (e *LoadError) Error() string { return e.Text }

// BootError is a failed call of the bootstrap in the target.
type BootError struct {
	Call string
	Err  error
}

func (e *BootError) Error() string { return fmt.Sprintf("%s in the target: %v", e.Call, e.Err) }

func (e *BootError) Unwrap() error { return e.Err }

// DiedError: the target ended when it was to do a step.
type DiedError struct {
	Step string
	Err  error
}

func (e *DiedError) Error() string { return fmt.Sprintf("%s: %v", e.Step, e.Err) }

func (e *DiedError) Unwrap() error { return e.Err }

// RemainsError: something of ours is still in the target.
type RemainsError struct {
	What string
	Err  error // why it had to be left; may be nil
}

func (e *RemainsError) Error() string {
	if e.Err == nil {
		return e.What + " remains in the target"
	}
	return fmt.Sprintf("%s remains in the target: %v", e.What, e.Err)
}

func (e *RemainsError) Unwrap() error { return e.Err }
