package session

import (
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
)

// Observer gets the progress of a recording. One goroutine at a time calls its methods. The
// target may have chosen parts of the texts.
type Observer interface {
	Preflight(facts string)
	Attached(how string, threads int, paused time.Duration)
	Recording(elapsed, total time.Duration, p collector.Progress, traceBytes uint64)
	Triggered(what string)               // a flight recorder has written a trace; any goroutine calls it
	Detaching(why string, expected bool) // expected: the user requested this end, on the command line or by a signal
	Detached(how string)
	Warn(text string)
	Debug(text string)
}
