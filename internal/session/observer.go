package session

import (
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
)

// An Observer gets the progress of a recording. Calls come from one goroutine at a
// time. The texts may hold what the target has chosen.
type Observer interface {
	Preflight(facts string)
	Attached(how string, threads int, paused time.Duration)
	Recording(elapsed, total time.Duration, p collector.Progress, traceBytes uint64)
	Detaching(why string, expected bool) // expected: as the user's command line, or hand, has it
	Detached(how string)
	Warn(text string)
	Debug(text string)
}
