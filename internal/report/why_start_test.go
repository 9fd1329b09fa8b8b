package report

import (
	"reflect"
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
		"the same process": {on(2, mine), startCause{kind: startDependency, queue: 2, kernel: 7}},
		"another process":  {on(2, other), startCause{kind: startBarrier}},
		"none":             {nil, startCause{kind: startBarrier}},
	} {
		g := gap{gpu: &gpu{lastQueue: c.last, lastKernel: 7}, queue: on(1, mine), span: traceread.Span{BeginNS: 10, EndNS: 20}}
		if g.askStart(&pendingKernel{}, causeDependency, 5); g.started != c.want {
			t.Errorf("%s: %+v", name, g.started)
		}
	}
}

// Dependencies on kernels of one queue are one cause, which names the kernel with the most time.
func TestStartedCauses(t *testing.T) {
	a := &asking{started: map[startKey]causeTotal{}}
	mine, other := &gpu{id: 1}, &gpu{id: 2}
	for _, g := range []gap{
		{gpu: mine, started: startCause{kind: startDependency, queue: 3, kernel: otherKernel}, waitedNS: 700},
		{gpu: mine, started: startCause{kind: startDependency, queue: 3, kernel: filteredKernel}, waitedNS: 200},
		{gpu: mine, started: startCause{kind: startDependency, queue: 3, kernel: filteredKernel}, waitedNS: 100},
		{gpu: mine, started: startCause{kind: startDependency, queue: 4, kernel: otherKernel}, waitedNS: 50},
		{gpu: mine, started: startCause{kind: startDependency, queue: 5, kernel: filteredKernel}, waitedNS: 5},
		{gpu: mine, started: startCause{kind: startLaunch}, waitedNS: 40},
		{gpu: other, started: startCause{kind: startDependency, queue: 3, kernel: filteredKernel}, waitedNS: 1 << 40},
	} {
		a.ask(&g)
	}
	got, err := otherCauses(&GPU{ID: 1}, a, nil)
	const behind = "launched, not yet started: waited behind a barrier packet, when a kernel on queue "
	want := []IdleCause{
		{NS: 1000, State: IdleDependency, Queue: 3, Kernel: filteredName, Times: 3, Text: behind + "3 had just ended, mostly (30.0%) (filtered)"},
		{NS: 50, State: IdleDependency, Queue: 4, Times: 1, Text: behind + "4 had just ended"},
		{NS: 40, State: IdleLaunch, Times: 1, Text: "launched, not yet started: launch latency"},
		{NS: 5, State: IdleDependency, Queue: 5, Kernel: filteredName, Times: 1, Text: behind + "5 had just ended: (filtered)"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}
