package truth

import (
	"cmp"
	"fmt"
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

const chainRounds = 200

// chain runs the program with these arguments from its first kernel on, and returns it with its trace.
func chain(t *testing.T, sim []string, args ...string) (p *harness.Process, trace string) {
	t.Helper()
	testenv.NeedRoot(t)
	if os.Getenv("RTL_RUNTIME") != "" {
		testenv.Skip(t, "rtl-attach run starts programs of this machine's root only")
	}
	trace = filepath.Join(t.TempDir(), "trace.db")
	p = harness.StartCold(t, harness.Workload{
		Program: "chain", Args: append([]string{strconv.Itoa(chainRounds)}, args...), Sim: sim,
		Under: []string{testenv.Artefact(t, "rtl-attach"), "run", "--sched", "-o", trace, "--"},
	})
	if code := p.Wait(t); code != 0 {
		t.Fatalf("exit code %d\n%s", code, p.Output())
	}
	if rows := harness.ReadThreads(t, trace, 1); rows.Method != "bpf" {
		testenv.Skip(t, rows.Detail)
	}
	return p, trace
}

// theDependency returns the only dependency among a GPU's causes, which is on the kernel that the log has.
func theDependency(t *testing.T, trace string, gpu int, of *simlog.Record) report.IdleCause {
	t.Helper()
	made, err := report.Make(trace, report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	causes := slices.DeleteFunc(slices.Clone(made.WhyIdle.GPUs[gpu].Causes), func(c report.IdleCause) bool { return c.State != report.IdleDependency })
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
	if key := tr.Queues[c.Queue].Key; key != (harness.Key{Address: of.Queue, ID: of.QueueID}) || c.Kernel == "" || c.Kernel != name || !strings.HasSuffix(c.Text, ": "+name) {
		t.Errorf("%+v on %+v; the log has %s (%s) on queue %#x id %d", c, key, of.Name, name, of.Queue, of.QueueID)
	}
	return c
}

// A kernel that has waited for one of another queue: the report names that queue and kernel, and the time is by the
// simulator's log.
func TestQueueDependency(t *testing.T) {
	t.Parallel()
	p, trace := chain(t, nil)
	waited, gaps, of := dependencies(t, p.Truth(t))
	if gaps < chainRounds/2 {
		t.Fatalf("the simulator's log has %d gaps before a kernel that waited for one of another queue", gaps)
	}
	c := theDependency(t, trace, 0, of)
	t.Logf("%d ns in %d gaps by the log, %d ns in %d by the report: %s", waited, gaps, c.NS, c.Times, c.Text)
	const exactNS = 100 // for each gap: the clocks' conversion
	if c.GPU != nil || c.Times != gaps || math.Abs(float64(c.NS-waited)) > float64(exactNS*gaps) {
		t.Errorf("%d ns in %d gaps by the log, %d ns in %d by the report", waited, gaps, c.NS, c.Times)
	}
}

// TestGPUDependency: so it is of a kernel that has waited for one of another GPU.
func TestGPUDependency(t *testing.T) {
	t.Parallel()
	p, trace := chain(t, []string{"SOFTGPU_GPUS=2"}, "1")
	w := dependenciesElsewhere(t, p.Truth(t))
	if w.gaps+w.unsure < chainRounds/2 {
		testenv.Skip(t, fmt.Sprintf("%d of %d kernels started within 100 µs of the end of the one that they waited for", w.gaps, chainRounds))
	}
	c := theDependency(t, trace, 1, w.of)
	t.Logf("%d to %d ns in %d gaps by the log, %d ns in %d by the report: %s", w.leastNS, w.mostNS, w.gaps, c.NS, c.Times, c.Text)
	if c.GPU == nil || *c.GPU != 0 || c.Times < w.gaps || c.Times > w.gaps+w.unsure || c.NS < w.leastNS || c.NS > w.mostNS {
		t.Errorf("%+v, want %+v", c, w)
	}
}

// waitedElsewhere is what the log says of kernels of the second GPU that started just after a kernel of the first one had ended.
type waitedElsewhere struct {
	gaps, unsure    int64 // unsure: at the border of what counts as just after
	leastNS, mostNS int64 // the second kernel's submit, which is not in the log, was before the first one's start and after the gap's begin
	of              *simlog.Record
}

func dependenciesElsewhere(t *testing.T, log *harness.Log) (w waitedElsewhere) {
	t.Helper()
	const promptNS, readingNS = 100_000, 200
	kernels := map[int][]*simlog.Record{}
	for _, records := range log.Queues {
		for _, r := range records {
			if r.Kind == simlog.Kernel {
				kernels[r.Node] = append(kernels[r.Node], r)
			}
		}
	}
	if len(kernels[0]) != chainRounds+1 || len(kernels[1]) != chainRounds+1 {
		t.Fatalf("%d and %d kernels", len(kernels[0]), len(kernels[1]))
	}
	for _, of := range kernels {
		slices.SortFunc(of, func(a, b *simlog.Record) int { return cmp.Compare(a.StartNS, b.StartNS) })
	}
	w.of = kernels[0][1]
	for i, r := range kernels[1][1:] {
		first, before := kernels[0][i+1], kernels[1][i]
		late := int64(r.StartNS - first.EndNS)
		most := int64(r.StartNS-before.EndNS) + readingNS
		switch {
		case late > promptNS+readingNS:
			continue
		case late > promptNS-readingNS:
			w.unsure++
			w.mostNS += most
			continue
		}
		w.gaps++
		w.leastNS += int64(r.StartNS-first.StartNS) - readingNS
		w.mostNS += most
	}
	return w
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
