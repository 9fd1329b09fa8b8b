package truth

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

// RCCL itself, on simulated GPUs, attached to when its communicator exists: the calls of all ranks are recorded
// with their counts, types and communicators, and each of its kernels belongs to the call that submitted it: a collective
// that is alone, or the end of a group, whose members the trace knows.
func TestRCCLReal(t *testing.T) {
	needRCCL(t)
	p := harness.Start(t, harness.RCCLRanks(t, 3))
	run := p.RecordLast(t, 800*time.Millisecond, 2000, append([]string{"--hip-trace"}, rcclCalls...)...)
	check(t, p, nil, run).MustHaveRecorded(200)
	c := harness.NewCallComparison(t, p.APICalls(t), true)
	c.Add(harness.ReadAPICalls(t, run.Trace).Only("rccl-api"))
	c.Finish()
	c.MustHaveRecorded(30, "ncclAllReduce", "ncclBroadcast", "ncclReduceScatter", "ncclAllGather", "ncclSend", "ncclRecv", "ncclGroupStart", "ncclGroupEnd")
	mustHaveRCCLKernels(t, run.Trace)
}

func mustHaveRCCLKernels(t *testing.T, trace string) {
	t.Helper()
	kernels, others := harness.ReadRCCLKernels(t, trace)
	if others > 0 {
		t.Errorf("%d kernels of the program are said to be RCCL's", others)
	}
	by := map[string]int{}
	for _, k := range kernels {
		by[k.Function]++
		exchange, together := []string{"ncclSend", "ncclRecv"}, []string{"ncclAllReduce", "ncclAllReduce", "ncclAllReduce"}
		switch grouped := k.Function == "ncclGroupEnd"; {
		case k.Function == "":
			t.Errorf("no call of RCCL submitted %+v", k)
		case grouped && !slices.Equal(k.Members, exchange) && !slices.Equal(k.Members, together), !grouped && len(k.Members) > 0:
			t.Errorf("%+v", k)
		}
		if !strings.HasPrefix(k.Rank, "rank ") {
			t.Errorf("on a thread with the name %q: %+v", k.Rank, k)
		}
	}
	t.Logf("kernels by the call that submitted them: %v", by)
	for _, f := range []string{"ncclAllReduce", "ncclBroadcast", "ncclReduceScatter", "ncclAllGather", "ncclGroupEnd"} {
		if by[f] < 20 {
			t.Errorf("%s: only %d kernels", f, by[f])
		}
	}
}
