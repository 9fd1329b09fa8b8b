package export

import (
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// related adds what rocprofv3's own timelines have in the arguments of events, by which TraceLens relates calls of HIP and
// what they submitted: the correlation id of the call (0: none is known), the GPU of a kernel (nil: it is none; TraceLens takes
// whatever has one for a kernel), and times in ns. A timeline without HIP's calls has none of it.
func (c *chrome) related(l jsonLine, call int64, gpu *traceread.Agent, fromNS, untilNS int64) jsonLine {
	if c.trace.linked == nil {
		return l
	}
	if call != 0 {
		l = l.int("corr_id", call)
	}
	if gpu != nil {
		l = l.text("agent", fmt.Sprintf("GPU %d", gpu.GPU))
	}
	return l.int("begin_ns", fromNS).int("end_ns", untilNS).int("delta_ns", untilNS-fromNS)
}

// relatedEvent is related for an event of another kind: a call of HIP, or what one can submit.
func (c *chrome) relatedEvent(l jsonLine, one *event) jsonLine {
	switch {
	case one.Category == "hip_api":
		return c.related(l, one.ID, nil, one.StartNS, one.EndNS)
	case one.Category == "memory_copy":
		return c.related(l, one.Call, nil, one.StartNS, one.EndNS)
	}
	return l
}
