package export

import (
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// nests places events that may contain each other: an event is in the lane of the one around
// it, and only events that overlap otherwise have lanes of their own.
type nests[Of comparable] struct {
	open map[Of][][]int64 // for each lane the ends of the events that are open, the outermost first
	all  int              // ends
}

func newNests[Of comparable]() *nests[Of] { return &nests[Of]{open: map[Of][][]int64{}} }

// place returns the lane of an event. The caller passes events in the order of their starts,
// of those that start together the longest first.
func (ns *nests[Of]) place(of Of, startNS, endNS int64) (int, error) {
	lanes := ns.open[of]
	for i, ends := range lanes {
		before := len(ends)
		for len(ends) > 0 && ends[len(ends)-1] <= startNS {
			ends = ends[:len(ends)-1]
		}
		ns.all -= before - len(ends)
		lanes[i] = ends
		if len(ends) == 0 || endNS <= ends[len(ends)-1] {
			return i, ns.put(lanes, i, endNS)
		}
	}
	if len(lanes) == mostLanes {
		return 0, tooMany(len(lanes))
	}
	lanes = append(lanes, nil)
	ns.open[of] = lanes
	return len(lanes) - 1, ns.put(lanes, len(lanes)-1, endNS)
}

func (ns *nests[Of]) put(lanes [][]int64, i int, endNS int64) error {
	if ns.all == mostLanesInAll {
		return tooMany(len(lanes[i]))
	}
	lanes[i] = append(lanes[i], endNS)
	ns.all++
	return nil
}

func tooMany(events int) error {
	return fmt.Errorf("over %d kernels or events at once in one place: %w", events, traceread.ErrImpossible)
}
