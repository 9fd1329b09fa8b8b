package tracedb

import "github.com/rtl-attach/rtl-attach/internal/ring"

// Reason is why packets have no times.
type Reason struct {
	Name string
	Text string
}

// Reasons has one entry for each ring.Reason.
var Reasons = [ring.ReasonCount]Reason{
	ring.ReasonNone:           {"none", "no reason given"},
	ring.ReasonAfterDetach:    {"after-detach", "claimed while active, published after the detach"},
	ring.ReasonNoSignal:       {"no-signal", "the pool of signals was empty"},
	ring.ReasonBacklog:        {"backlog", "the queue's list to the worker was full"},
	ring.ReasonSharedSignal:   {"shared-signal", "several packets in flight on one signal"},
	ring.ReasonRearmed:        {"rearmed", "the signal was re-armed before it fired"},
	ring.ReasonDestroyed:      {"destroyed", "the signal was destroyed before it fired"},
	ring.ReasonNotCompleted:   {"not-completed", "still running when the drain ended"},
	ring.ReasonSignalTable:    {"signal-table", "too many application signals at once"},
	ring.ReasonNoTimes:        {"no-times", "completed, but the hardware wrote no times"},
	ring.ReasonQueueDestroyed: {"queue-destroyed", "the queue was destroyed under it"},
}
