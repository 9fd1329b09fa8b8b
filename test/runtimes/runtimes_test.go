// Package runtimes attaches to programs on the ROCm of each Debian release that
// has one, and compares what is recorded with the truth, record for record.
//
// Each release is a root file system with workloads that its own compilers built
// against its own headers (make runtimes). The tool and the simulated GPU are
// this machine's: the tool attaches as from a container's host.
package runtimes

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// cycles is how often each case attaches to one process: RTL_CYCLES, or 100.
func cycles(t *testing.T) int {
	text := os.Getenv("RTL_CYCLES")
	if text == "" {
		return 100
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("RTL_CYCLES=%s: expected a number from 1 on", text)
	}
	return n
}

// suites are the releases that RTL_RUNTIMES names.
func suites() []string { return strings.Fields(os.Getenv("RTL_RUNTIMES")) }

// A scenario is what runs on every runtime that can run it. What differs in the
// GPU only is repeated less often.
type scenario struct {
	name     string
	share    int // of the cycles: one in so many
	workload harness.Workload

	kernels int // recorded per attach, at least
	copies  int // the same; 0: copies are not recorded
}

// newestDriver is the kernel driver's latest minor version that any of these
// runtimes asks for something of: event ages came with 14, the choice of an SDMA
// engine with 17.
const newestDriver = "SOFTGPU_KFD_MINOR=18"

func scenarios() []scenario {
	raw := []string{"--threads", "9", "--queues", "2", "--ring", "64", "--pace", "300", "--seconds", "0"}
	server := []string{"--threads", strconv.Itoa(serverThreads), "--streams", "4"}
	return []scenario{
		{"raw HSA", 1, harness.Workload{Program: "hsastress", Args: raw}, 50, 0},
		{"raw HSA, newest driver", 5, harness.Workload{Program: "hsastress", Args: raw, Sim: []string{newestDriver}}, 50, 0},
		{"raw HSA, 4 GPUs", 5, harness.Workload{Program: "hsastress", Args: raw, Sim: []string{"SOFTGPU_GPUS=4"}}, 50, 0},
		{"raw HSA, copies", 2, harness.Copier(), 5, 100},
		{"raw HSA, copies, newest driver", 5, on(harness.Copier(), newestDriver), 5, 100},
		{"raw HSA, copies, xGMI", 5, on(harness.Copier(), "SOFTGPU_HIVE=1"), 5, 100},
		{"HIP server", 1, harness.Workload{Program: "serve", Args: server}, 50, 0},
		{"HIP server, newest driver", 5, harness.Workload{Program: "serve", Args: server, Sim: []string{newestDriver}}, 50, 0},
		{"HIP server, copies", 2, harness.CopyingServer(serverThreads), 50, 5},
	}
}

const serverThreads = 3

// on is a workload under one more setting of the simulator.
func on(w harness.Workload, setting string) harness.Workload {
	w.Sim = append(w.Sim, setting)
	return w
}

func TestRuntimes(t *testing.T) {
	if os.Getenv("RTL_RUNTIMES") == "" {
		testenv.Skip(t, "no RTL_RUNTIMES=\"bookworm trixie …\" (run: make runtimes)")
	}
	var rows []row
	for _, suite := range suites() {
		t.Run(suite, func(t *testing.T) { rows = append(rows, onRuntime(t, suite)...) })
	}
	printTable(rows)
	if !slices.ContainsFunc(rows, func(r row) bool { return r.scenario != "" }) {
		t.Error("there is no release to attach to (run: make runtimes)")
	}
}

// onRuntime runs each scenario.
func onRuntime(t *testing.T, suite string) (rows []row) {
	r := harness.FindRuntime(t, suite)
	rows = append(rows, row{versions: versions(t, r)})
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			if !r.Has(s.workload.Program) {
				testenv.Skip(t, fmt.Sprintf("Debian %s: %s was not built", suite, s.workload.Program))
			}
			s.workload.Runtime = &r
			result := row{scenario: s.name, cycles: max(cycles(t)/s.share, 1)}
			defer func() {
				result.failed = t.Failed()
				rows = append(rows, result)
			}()
			result.measure(t, s)
		})
	}
	return rows
}

// versions names a release and what it has, by its package database. Its HIP is
// the one that the workloads were built with: sid has an older one beside it.
func versions(t *testing.T, r harness.Runtime) string {
	text := "Debian " + r.Suite + ":"
	for _, part := range []struct{ name, pkg string }{
		{"ROCr", "libhsa-runtime64-1"}, {"HIP", "libamdhip64-dev"}, {"ROCTX", "libroctx64-4"}, {"glibc", "libc6"},
	} {
		text += fmt.Sprintf(" %s %s,", part.name, cmp.Or(r.Version(t, part.pkg), "none"))
	}
	return strings.TrimSuffix(text, ",")
}

// measure attaches again and again, and then holds everything to the truth.
func (w *row) measure(t *testing.T, s scenario) {
	p := harness.Start(t, s.workload)
	before, slots := p.Snapshot(t), p.Slots(t)
	var args []string
	if s.copies > 0 {
		args = []string{"--memory-copy-trace"}
	}
	runs := p.Reattach(t, w.cycles, args...)
	for _, item := range p.Snapshot(t).Left(before) {
		if !comesAndGoes(item) {
			t.Errorf("not as before: %s", item)
		}
	}
	if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
		t.Errorf("slots changed: %v", changed)
	}
	for _, run := range runs {
		w.stops += run.Summary.Pauses.Stops
		w.worstStop = max(w.worstStop, time.Duration(run.Summary.Pauses.WorstNS))
	}
	w.of = harness.Check(t, p, p.TIDs(), runs...)
	w.of.MustHaveRecorded(s.kernels * w.cycles)
	if s.copies > 0 {
		_, engines := slots["hsa_amd_memory_async_copy_on_engine"]
		w.compareCopies(t, s, harness.CompareCopies(t, p, runs...), engines)
	}
}

// comesAndGoes: memory of the GPU with the workload's queues, and a thread of the
// runtime's with each copy between host memory.
func comesAndGoes(item string) bool {
	return strings.Contains(item, harness.GPUMemory) || strings.HasSuffix(item, "thread copies ×1")
}

// compareCopies: enough were recorded, and of all kinds that the runtime has.
func (w *row) compareCopies(t *testing.T, s scenario, c *harness.CopyComparison, engines bool) {
	w.copies = c
	c.MustHaveRecorded(s.copies * w.cycles)
	if s.workload.LogsCalls {
		if recorded := c.Timed["engine"] > 0; recorded != engines {
			t.Errorf("the runtime copies on engines of a caller's choice: %t; such copies were recorded: %t", engines, recorded)
		}
		return
	}
	c.MustHaveFew(serverThreads)
	if c.Kernels < s.copies*w.cycles/2 {
		t.Errorf("only %d copies by kernels", c.Kernels)
	}
}
