package humanize

import (
	"math"
	"testing"
	"time"
)

func TestHumanize(t *testing.T) {
	for got, want := range map[string]string{
		Count(548_112):                  "548,112",
		Count(-1_000_007):               "-1,000,007",
		Count(-100):                     "-100",
		Count(math.MinInt64):            "-9,223,372,036,854,775,808",
		Count(uint64(math.MaxUint64)):   "18,446,744,073,709,551,615",
		Count(999):                      "999",
		Things(1, "queue"):              "1 queue",
		Things(0, "queue"):              "0 queues",
		Things(4000, "dispatch"):        "4,000 dispatches",
		Things(2, "memory copy"):        "2 memory copies",
		Things(uint32(3), "process"):    "3 processes",
		Duration(0):                     "0 ns",
		Duration(999):                   "999 ns",
		Duration(31_100):                "31.1 µs",
		Duration(999_600):               "1 ms",
		Duration(1_910_000_000):         "1.91 s",
		Duration(-2_500):                "-2.5 µs",
		Duration(20 * time.Second):      "20 s",
		Duration(72_000 * time.Second):  "72000 s",
		Bytes(131_000_000):              "131 MB",
		Bytes(512):                      "512 B",
		Bytes(uint64(64 << 20)):         "67.1 MB",
		Bytes(int64(3_500_000_000_000)): "3.5 TB",
	} {
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
