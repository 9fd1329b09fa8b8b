package calls

import (
	"regexp"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Handles of HIP streams that are not pointers.
const (
	defaultStream   = 0
	legacyStream    = 1 // hipStreamLegacy: the default stream
	perThreadStream = 2 // hipStreamPerThread: the calling thread's own default stream
)

// onDefaultStream matches the functions that use the default stream and have no parameter for it.
var onDefaultStream = regexp.MustCompile(`^hip(Memcpy|Memset)`)

// recordsEvent and waitsForEvent are the functions by which a stream waits for another one.
var (
	recordsEvent  = map[string]bool{"hipEventRecord": true, "hipEventRecordWithFlags": true, "hipEventRecord_spt": true}
	waitsForEvent = map[string]bool{"hipStreamWaitEvent": true, "hipStreamWaitEvent_spt": true}
)

// stream returns the stream that a handle means to a function that has a stream.
func (f *named) stream(handle int64) int64 {
	if handle != defaultStream && handle != legacyStream {
		return handle
	}
	if strings.HasSuffix(f.name, "_spt") {
		return perThreadStream
	}
	return defaultStream
}

// streamOf returns which of the recorded words is the stream of a call, and the stream that the function
// uses if that is 0 or if there is no such word. Null: it has none.
func streamOf(f *function.Function) (word, handle int64) {
	word = tracedb.Null
	switch {
	case f.Stream >= 0:
		p := f.Parameters[f.Stream].Place
		word = int64(p.First)
		if p.In == function.Stack {
			word += registers
		}
	case !onDefaultStream.MatchString(f.Name) || strings.Contains(f.Name, "Async"):
		return tracedb.Null, tracedb.Null
	}
	if strings.HasSuffix(f.Name, "_spt") {
		return word, perThreadStream
	}
	return word, defaultStream
}
