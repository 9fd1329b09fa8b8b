package export

import (
	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
)

// mostStreams is how many HIP streams an export numbers; those of others are not known.
const mostStreams = 1 << 16

// streams numbers the HIP streams of an export from 1, in the order in which they come; 0: not known.
type streams map[calls.StreamKey]int64

// number returns the number of the stream of a dispatch, whose handle is as SQL returns it (calls.StreamSQL).
func (s streams) number(d *dispatch, handle any) int64 {
	stream, known := calls.ParseStream(handle)
	if !known {
		return 0
	}
	thread := int64(0)
	if d.thread != nil {
		thread = d.thread.id
	}
	key := calls.KeyOf(d.queue.Agent.Session.ID, thread, stream)
	n, seen := s[key]
	if !seen && len(s) < mostStreams {
		n = int64(len(s)) + 1
		s[key] = n
	}
	return n
}

// streamID returns what a dispatch has as its stream in rocprofv3's formats: the number of the HIP
// stream where the trace has the calls of HIP, and otherwise the queue.
func (d *dispatch) streamID() int64 {
	if d.linked {
		return d.stream
	}
	return d.queue.ID
}
