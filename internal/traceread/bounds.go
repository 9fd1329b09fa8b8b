package traceread

import (
	"math"
	"strings"
	"unicode/utf8"
)

// Bounds of what readers hold as a whole. Recorders stay far below them.
const (
	MostDefinitions = 1 << 18 // rows of one table
	MostSessions    = 1 << 14
	MostGPUs        = 1 << 12

	// LongestName bounds a kernel's name, in bytes; recorders write up to 16 KiB.
	// LongestWord bounds every other name.
	LongestName = 32 << 10
	LongestWord = 256

	// LatestNS is beyond every clock, and leaves room for the sum of two times.
	LatestNS = 1<<62 - 1
)

// Cut shortens a text that is longer than so many bytes, and marks it with "…".
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

// Possible reports whether a time in ns and a duration can be a recorder's: both at least
// 0, and the end no later than LatestNS.
func Possible(startNS, durationNS int64) bool {
	return startNS >= 0 && startNS <= LatestNS && durationNS >= 0 && durationNS <= LatestNS-startNS
}

// Submit returns when a dispatch with a possible start was submitted, from the time that
// it was queued. known is false where the result is no possible time.
func Submit(startNS, queuedNS int64) (atNS int64, known bool) {
	if queuedNS > startNS || queuedNS < startNS-LatestNS {
		return 0, false
	}
	return startNS - queuedNS, true
}
