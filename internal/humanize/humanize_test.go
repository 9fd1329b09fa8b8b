package humanize

import (
	"math"
	"testing"
)

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		Count(548_112):           "548,112",
		Count(-1_000_007):        "-1,000,007",
		Things(1, "queue"):       "1 queue",
		Things(4000, "dispatch"): "4,000 dispatches",
		Count(math.MinInt64):     "-9,223,372,036,854,775,807",
		Count(999):               "999",
	} {
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
