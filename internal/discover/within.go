package discover

import "time"

// A process can make a look at it hang. Limits of looks: at one process, and at all.
const (
	LookLimit = 5 * time.Second
	ListLimit = 30 * time.Second
)

// Within returns what look returns, unless that takes longer than limit: look goes on
// then, and its result is dropped.
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
