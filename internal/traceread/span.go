package traceread

// Span is a time from BeginNS up to EndNS, in ns of CLOCK_BOOTTIME.
type Span struct{ BeginNS, EndNS int64 }

// Always is all the time that there is.
var Always = Span{0, LatestNS}

// Within returns how many ns of the time from beginNS to endNS lie in the span.
func (s Span) Within(beginNS, endNS int64) int64 {
	return max(0, min(endNS, s.EndNS)-max(beginNS, s.BeginNS))
}

// Clip returns the part of the span that lies in another one. The part is empty, with an
// end before its begin, where they share nothing.
func (s Span) Clip(other Span) Span {
	return Span{max(s.BeginNS, other.BeginNS), min(s.EndNS, other.EndNS)}
}
