package whyidle

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Pieces of a chain that are given to another waker count once, also where there is no room for further causes.
func TestGILChainWithoutRoom(t *testing.T) {
	for _, room := range []bool{true, false} {
		s := newSweep(&sessions{}, nil, nil)
		g := s.gpu(1)
		for i := range int64(mostCauses) {
			if !room {
				g.byCause[Cause{Stack: i + 1}] = &causeSums{}
			}
		}
		p := blockedPiece{gpu: 1, cause: Cause{Thread: 1, State: Blocked, Stack: 1 << 40}, span: traceread.Span{BeginNS: 10, EndNS: 30}}
		s.putBlocked(&p)
		chain := &gilChain{pieces: []blockedPiece{p}}
		chain.give(s, Waker{PID: 1, TID: 2})
		chain.give(s, Waker{PID: 3, TID: 4})
		sum, times := int64(0), int64(0)
		for _, one := range g.byCause {
			sum, times = sum+one.ns, times+one.times
		}
		if sum != 20 || times != 1 {
			t.Errorf("%d ns, %d times", sum, times)
		}
		if last := g.byCause[Cause{Thread: 1, State: Blocked, Stack: 1 << 40, Waker: Waker{PID: 3, TID: 4}}]; room && (last == nil || last.ns != 20) {
			t.Errorf("%+v", last)
		}
	}
}
