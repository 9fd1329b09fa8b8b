package truth

import (
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

var (
	rcclCalls = []string{"--rccl-trace", "--buffer-policy", "lossless"}
	// rcclFunctions are those that each of the workload's threads calls at each step.
	rcclFunctions = []string{
		"ncclAllReduce", "ncclReduce", "ncclReduceScatter", "ncclGetErrorString", "ncclGroupStart", "ncclSend", "ncclRecv", "ncclGroupEnd",
		"ncclBroadcast", "ncclAllGather", "ncclAllToAllv",
	}
)

// needRCCL skips a test if the tool cannot record calls of RCCL.
func needRCCL(t *testing.T) {
	t.Helper()
	if help := harness.Tool(t, "record", "--help"); !strings.Contains(help.Stdout+help.Stderr, "--rccl-trace") {
		testenv.Skip(t, "the tool has no --rccl-trace")
	}
}

// Every call of RCCL's functions that the program made while it was recorded is recorded once, with its
// arguments and result, also those with 16 words on the stack. The library has no dispatch table.
func TestRCCL(t *testing.T) {
	t.Parallel()
	needRCCL(t)
	p := harness.Start(t, harness.RCCLCalls())
	run := p.RecordLast(t, 800*time.Millisecond, 20000, rcclCalls...)
	check(t, p, nil, run).MustHaveRecorded(100)
	mustHaveRCCL(harness.CompareAPICalls(t, p, true, run))
}

func mustHaveRCCL(c *harness.CallComparison) {
	c.MustHaveRecorded(50, rcclFunctions...)
	c.MustHaveRecorded(5, "ncclGetUniqueId", "ncclCommInitRank", "ncclCommDestroy", "ncclCommUserRank", "ncclCommCount", "ncclCommGetAsyncError")
}

// RCCL is loaded after the first attach: the first session has no calls, and the next one has them.
func TestRCCLLoadedLate(t *testing.T) {
	t.Parallel()
	needRCCL(t)
	p := harness.Start(t, harness.RCCLCalls("--late", "1"))
	first := p.RecordShortly(t, 80*time.Millisecond, rcclCalls...)
	if a, asked := harness.ReadAPICalls(t, first.Trace).Accounts["rccl-api"]; !asked || a.Begun != 0 {
		t.Errorf("before RCCL is loaded: %+v, %t", a, asked)
	}
	if _, err := p.Get("/load"); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "it calls RCCL", p.Dispatches(t, 2000))
	second := p.RecordLast(t, 800*time.Millisecond, 20000, rcclCalls...)
	check(t, p, nil, first, second).MustHaveRecorded(100)
	mustHaveRCCL(harness.CompareAPICalls(t, p, true, first, second))
}
