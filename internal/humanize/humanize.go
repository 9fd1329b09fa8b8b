// Package humanize writes numbers as people read them.
package humanize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Count writes 548112 as 548,112.
func Count(n int64) string {
	if n < 0 {
		return "-" + Count(-max(n, -math.MaxInt64)) // the least has no positive
	}
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return Count(n/1000) + fmt.Sprintf(",%03d", n%1000)
}

// Things writes a count with what is counted: 1 queue, 4,000 dispatches.
func Things(n int64, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "y") && !strings.HasSuffix(what, "ey"):
		return Count(n) + " " + strings.TrimSuffix(what, "y") + "ies"
	case strings.HasSuffix(what, "ch"), strings.HasSuffix(what, "s"):
		what += "e"
	}
	return Count(n) + " " + what + "s"
}
