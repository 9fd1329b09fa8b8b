package truth

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/simlog"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// A kernel that has waited for one of another queue: the report names that queue and kernel, and the time is by the
// simulator's log.
func TestQueueDependency(t *testing.T) {
	t.Parallel()
	testenv.NeedRoot(t)
	if os.Getenv("RTL_RUNTIME") != "" {
		testenv.Skip(t, "rtl-attach run starts programs of this machine's root only")
	}
	const rounds = 200
	trace := filepath.Join(t.TempDir(), "trace.db")
	p := harness.StartCold(t, harness.Workload{
		Program: "chain", Args: []string{strconv.Itoa(rounds)},
		Under: []string{testenv.Artefact(t, "rtl-attach"), "run", "--sched", "-o", trace, "--"},
	})
	if code := p.Wait(t); code != 0 {
		t.Fatalf("exit code %d\n%s", code, p.Output())
	}
	rows := harness.ReadThreads(t, trace, 1)
	if rows.Method != "bpf" {
		testenv.Skip(t, rows.Detail)
	}
	waited, gaps, of := dependencies(t, p.Truth(t))
	if gaps < rounds/2 {
		t.Fatalf("the simulator's log has %d gaps before a kernel that waited for one of another queue", gaps)
	}
	made, err := report.Make(trace, report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	causes := slices.DeleteFunc(slices.Clone(made.WhyIdle.GPUs[0].Causes), func(c report.IdleCause) bool { return c.State != report.IdleDependency })
	if len(causes) != 1 {
		t.Fatalf("not one cause: %+v", causes)
	}
	tr, c := harness.ReadTrace(t, trace), causes[0]
	name := ""
	for _, l := range tr.Launches {
		if strings.TrimSuffix(l.Symbol, ".kd") == of.Name {
			name = l.Name
		}
	}
	t.Logf("%d ns in %d gaps by the log, %d ns in %d by the report: %s", waited, gaps, c.NS, c.Times, c.Text)
	if key := tr.Queues[c.Queue].Key; key != (harness.Key{Address: of.Queue, ID: of.QueueID}) || c.Kernel == "" || c.Kernel != name || !strings.HasSuffix(c.Text, ": "+name) {
		t.Errorf("%+v on %+v; the log has %s (%s) on queue %#x id %d", c, key, of.Name, name, of.Queue, of.QueueID)
	}
	const exactNS = 100 // for each gap: the clocks' conversion
	if c.Times != gaps || math.Abs(float64(c.NS-waited)) > float64(exactNS*gaps) {
		t.Errorf("%d ns in %d gaps by the log, %d ns in %d by the report", waited, gaps, c.NS, c.Times)
	}
}

// dependencies returns the time between the end of a kernel and the start of the next one, where these are on different
// queues and a barrier is in front of the second; the number of these times, and one of the first kernels.
func dependencies(t *testing.T, log *harness.Log) (waitedNS, gaps int64, of *simlog.Record) {
	t.Helper()
	var all []*simlog.Record
	barriers := map[harness.Key]map[uint64]bool{}
	for key, records := range log.Queues {
		barriers[key] = map[uint64]bool{}
		for _, r := range records {
			if r.Kind == simlog.Kernel {
				all = append(all, r)
			} else {
				barriers[key][r.Packet] = true
			}
		}
	}
	slices.SortFunc(all, func(a, b *simlog.Record) int { return cmp.Compare(a.StartNS, b.StartNS) })
	for i := 1; i < len(all); i++ {
		before, r := all[i-1], all[i]
		key := harness.Key{Address: r.Queue, ID: r.QueueID}
		if before.Queue == r.Queue || r.StartNS <= before.EndNS || !barriers[key][r.Packet-1] {
			continue
		}
		if of == nil {
			of = before
		}
		if before.Queue != of.Queue || before.Name != of.Name {
			t.Errorf("%v waited for another kernel than the others: %v", r, before)
		}
		waitedNS += int64(r.StartNS - before.EndNS)
		gaps++
	}
	return waitedNS, gaps, of
}
