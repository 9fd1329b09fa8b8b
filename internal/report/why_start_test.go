package report

import (
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// A kernel behind a barrier packet may depend on a kernel of another queue of its process, not on another process's.
func TestStartBehindBarrier(t *testing.T) {
	mine, other := &process{}, &process{}
	on := func(id int64, p *process) *queue {
		return &queue{Queue: &traceread.Queue{ID: id}, session: &gpuSession{session: &session{process: p}}}
	}
	for name, c := range map[string]struct {
		last *queue
		want startCause
	}{
		"the same process": {on(2, mine), startCause{startDependency, 2}},
		"another process":  {on(2, other), startCause{kind: startBarrier}},
		"none":             {nil, startCause{kind: startBarrier}},
	} {
		g := gap{gpu: &gpu{lastQueue: c.last}, queue: on(1, mine), span: traceread.Span{BeginNS: 10, EndNS: 20}}
		if g.askStart(&pendingKernel{}, causeDependency, 5); g.started != c.want {
			t.Errorf("%s: %+v", name, g.started)
		}
	}
}
