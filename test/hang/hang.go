// Package hang has the only time limit of the tests. A test waits for events, and
// its verdict depends on their order and number, not on how long they took: a machine
// that does something else is slow, not wrong. The limit ends a test that would wait
// for ever.
package hang

import "time"

// Limit is how long a test waits for an event before it calls it missing. On an idle
// machine every event that a test waits for comes within seconds.
const Limit = 5 * time.Minute

// poll is the interval between two looks.
const poll = 2 * time.Millisecond

// Eventually calls happened until it returns true, for at most Limit, and returns
// whether it did. It looks once more after the limit: a process that was stopped
// itself in between misses nothing.
func Eventually(happened func() bool) bool {
	for deadline := time.Now().Add(Limit); time.Now().Before(deadline); time.Sleep(poll) {
		if happened() {
			return true
		}
	}
	return happened()
}
