package traceread

// Span is a time from BeginNS up to EndNS, in ns of CLOCK_BOOTTIME.
type Span struct{ BeginNS, EndNS int64 }

// Always is the span of all possible times.
var Always = Span{0, LatestNS}

// Within returns how many ns of the time from beginNS to endNS are in the span.
func (s Span) Within(beginNS, endNS int64) int64 {
	return max(0, min(endNS, s.EndNS)-max(beginNS, s.BeginNS))
}

// Clip returns the intersection with another span. If they do not overlap, the result is empty,
// with an end before its begin.
func (s Span) Clip(other Span) Span {
	return Span{max(s.BeginNS, other.BeginNS), min(s.EndNS, other.EndNS)}
}
