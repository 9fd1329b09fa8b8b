package harness

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// callLog is the log in which the program copies writes its requests.
const callLog = "calls.log"

// Copier is that program: a thread for each way to copy, on two GPUs. Within a GPU the runtime
// uses an engine for small copies and a kernel for large ones, by default from 1 MiB on.
func Copier(args ...string) Workload {
	return Workload{
		Program:   "copies",
		Args:      append([]string{"--pace", "50"}, args...),
		Sim:       []string{"SOFTGPU_GPUS=2", "HSA_FORCE_SDMA_SIZE=32768"},
		LogsCalls: true,
	}
}

// CopyingServer copies through HIP, on two GPUs: in sizes for which all versions use the engines,
// and within a GPU, for which all versions use kernels.
func CopyingServer(threads int) Workload {
	return Workload{
		Program: "serve",
		Args:    []string{"--threads", strconv.Itoa(threads), "--streams", "4", "--copy-bytes", "65536", "--copy-within", "on"},
		Sim:     []string{"SOFTGPU_GPUS=2"},
	}
}

// CopyCall is the program's log entry of one call.
type CopyCall struct {
	Kind              string
	TID               int64
	BeforeNS, AfterNS int64
	Signal            uint64
	Bytes, Direction  int64
	From, To          int64
	Status            int
	StartNS, EndNS    int64 // a copy between host memory, by the runtime itself; 0: it takes no times
}

// CopyCalls reads the log of an ended program: the calls that the runtime accepted, by thread and
// in order. Without a log there are none.
func (p *Process) CopyCalls(t testing.TB) map[int64][]CopyCall {
	t.Helper()
	if p.calls == "" {
		return nil
	}
	b, err := os.ReadFile(p.calls)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[int64][]CopyCall{}
	for line := range strings.Lines(string(b)) {
		var c CopyCall
		if err := scanLine(line, &c.TID, &c.Kind, &c.BeforeNS, &c.AfterNS, &c.Signal, &c.Bytes, &c.Direction, &c.From, &c.To,
			&c.Status, &c.StartNS, &c.EndNS); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if c.Status == 0 && c.Bytes > 0 {
			calls[c.TID] = append(calls[c.TID], c)
		}
	}
	return calls
}

// is reports whether the row has the request of the call, and a submit time within it.
func (c CopyCall) is(r Copy) bool {
	return r.SubmitNS >= c.BeforeNS-stampToleranceNS && r.SubmitNS <= c.AfterNS+stampToleranceNS &&
		r.Bytes == c.Bytes && r.Direction == c.Direction && r.From == c.From && r.To == c.To
}

// reason returns why the copy has no times: the runtime takes no times of copies between host
// memory (before ROCm 6), and several copies on one signal overwrite each other's times (unless
// the first has ended before the second is requested).
func (c CopyCall) reason() string {
	switch {
	case c.Kind == "shared":
		return "shared-signal"
	case c.Kind == "host" && c.EndNS == 0:
		return "no-times"
	}
	return "none"
}

// callAt returns the call in which a copy was noted: the nearest one, because the relation of the
// time-stamp counter to the clock is only exact to some ns.
func callAt(calls []CopyCall, submitNS int64) int {
	i, _ := slices.BinarySearchFunc(calls, submitNS, func(c CopyCall, ns int64) int { return cmp.Compare(c.BeforeNS, ns) })
	if i == len(calls) || i > 0 && submitNS-calls[i-1].AfterNS < calls[i].BeforeNS-submitNS {
		i--
	}
	return i
}
