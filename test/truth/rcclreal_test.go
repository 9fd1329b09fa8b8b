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
	p := harness.Start(t, harness.RCCLRanks(t, 3, "--late-rank", "1", "--late", "1000"))
	run := p.RecordLast(t, 800*time.Millisecond, 2000, append([]string{"--hip-trace"}, rcclCalls...)...)
	check(t, p, nil, run).MustHaveRecorded(200)
	log, recorded := p.APICalls(t), harness.ReadAPICalls(t, run.Trace).OfKind("rccl-api")
	c := harness.NewCallComparison(t, log, true)
	c.Add(recorded)
	c.Finish()
	c.MustHaveRecorded(30, "ncclAllReduce", "ncclBroadcast", "ncclReduceScatter", "ncclAllGather", "ncclSend", "ncclRecv", "ncclGroupStart", "ncclGroupEnd")
	mustHaveRCCLKernels(t, run.Trace)
	checkCollectives(t, run, harness.ReadRCCLTruth(t, recorded, log))
}

// checkCollectives checks what the summary says of the communicator: ranks belong together although no call of the
// recording says so, and operations have the numbers that the log gives them.
func checkCollectives(t *testing.T, run harness.Run, want harness.RCCLTruth) {
	t.Helper()
	said := harness.SaysOfRCCL(t, run.Summary)
	if said == nil || said.Collectives == nil || len(said.Collectives.Communicators) != 1 || said.Collectives.LeftOut != 0 || said.Collectives.Mixed != 0 {
		t.Fatalf("%s", run.Stderr)
	}
	of := said.Collectives.Communicators[0]
	var calls, bytes, kernels int64
	for _, f := range of.Functions {
		calls, bytes, kernels = calls+f.Calls, bytes+f.Bytes, kernels+f.Kernels
		if f.Kernels > f.Calls || f.Kernels > 0 && (f.GPUNS <= 0 || f.BytesPerSecond <= 0) || f.Unsized > 0 {
			t.Errorf("%+v", f)
		}
	}
	if calls != want.Calls || bytes != want.Bytes || kernels == 0 {
		t.Errorf("%d calls, %d bytes, %d kernels; the trace has %d calls, %d bytes", calls, bytes, kernels, want.Calls, want.Bytes)
	}
	if of.Lateness == nil || *of.Lateness != want.Lateness || of.MatchedBy != "calls" || len(of.Ranks) != 3 {
		t.Errorf("%+v, by %s, of %+v; the log says %+v", of.Lateness, of.MatchedBy, of.Ranks, want.Lateness)
	}
	for _, r := range of.Ranks {
		if r.Last != want.Last[r.Thread] {
			t.Errorf("%+v; the log says %d", r, want.Last[r.Thread])
		}
	}
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
