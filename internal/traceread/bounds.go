package traceread

import (
	"math"
	"strings"
	"unicode/utf8"
)

// Limits of what readers hold in memory. Real recordings stay far below them.
const (
	MostDefinitions = 1 << 18 // rows of one table
	MostSessions    = 1 << 14
	MostGPUs        = 1 << 12

	// LongestName limits a kernel's name, in bytes; recorders write up to 16 KiB.
	// LongestWord limits every other name, in bytes.
	LongestName = 32 << 10
	LongestWord = 256

	// LatestNS is later than any valid time; the sum of two such times does not overflow.
	LatestNS = 1<<62 - 1
)

// Cut shortens a text that is longer than a number of bytes, and appends "…".
func Cut(s string, longest int) string {
	if len(s) <= longest {
		return s
	}
	for longest > 0 && !utf8.RuneStart(s[longest]) {
		longest--
	}
	return strings.Clone(s[:longest]) + "…"
}

// Sum adds two numbers that are not negative, up to the largest number.
func Sum(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// Possible reports whether a recorder can have written a time and a duration in ns: both are at
// least 0, and the end is not after LatestNS.
func Possible(startNS, durationNS int64) bool {
	return startNS >= 0 && startNS <= LatestNS && durationNS >= 0 && durationNS <= LatestNS-startNS
}

// Submit returns the submit time of a dispatch with a possible start, from the time for which it
// was queued. known is false if the result is not a possible time.
func Submit(startNS, queuedNS int64) (atNS int64, known bool) {
	if queuedNS > startNS || queuedNS < startNS-LatestNS {
		return 0, false
	}
	return startNS - queuedNS, true
}
