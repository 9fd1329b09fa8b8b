package discover

import "time"

// Limits of the time to examine one process, and all: a process can make a read of it hang.
const (
	LookLimit = 5 * time.Second
	ListLimit = 30 * time.Second
)

// Within returns the result of look. If look takes longer than limit, Within returns without
// it; look then continues, and its result is dropped.
func Within[T any](limit time.Duration, look func() T) (result T, inTime bool) {
	if limit <= 0 {
		return result, false
	}
	done := make(chan T, 1)
	go func() { done <- look() }()
	select {
	case result = <-done:
		return result, true
	case <-time.After(limit):
		return result, false
	}
}
