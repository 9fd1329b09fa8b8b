// Package runtimes attaches to programs on the ROCm of each Debian release that
// has one, and compares what is recorded with the truth, record for record.
//
// Each release is a root file system with workloads that its own compilers built
// against its own headers (make runtimes). The tool and the simulated GPU are
// this machine's: the tool attaches as from a container's host.
package runtimes

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

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
func suites() []string {
	if named := strings.Fields(os.Getenv("RTL_RUNTIMES")); len(named) > 0 {
		return named
	}
	return []string{"bookworm", "trixie", "sid"}
}

// A scenario is what runs on every runtime that can run it. What differs in the
// GPU only is repeated less often.
type scenario struct {
	name     string
	share    int // of the cycles: one in so many
	workload harness.Workload
}

// newestDriver is the kernel driver's latest minor version that any of these
// runtimes asks for something of: event ages came with 14, the choice of an SDMA
// engine with 17.
const newestDriver = "SOFTGPU_KFD_MINOR=18"

// gpuMemory names the simulated GPU's memory in a process's maps.
const gpuMemory = "/memfd:softgpu:render"

func scenarios() []scenario {
	raw := []string{"--threads", "9", "--queues", "2", "--ring", "64", "--pace", "300", "--seconds", "0"}
	server := []string{"--threads", "3", "--streams", "4"}
	return []scenario{
		{"raw HSA", 1, harness.Workload{Program: "hsastress", Args: raw}},
		{"raw HSA, newest driver", 5, harness.Workload{Program: "hsastress", Args: raw, Sim: []string{newestDriver}}},
		{"raw HSA, 4 GPUs", 5, harness.Workload{Program: "hsastress", Args: raw, Sim: []string{"SOFTGPU_GPUS=4"}}},
		{"HIP server", 1, harness.Workload{Program: "serve", Args: server}},
		{"HIP server, newest driver", 5, harness.Workload{Program: "serve", Args: server, Sim: []string{newestDriver}}},
	}
}

func TestRuntimes(t *testing.T) {
	var rows []row
	for _, suite := range suites() {
		t.Run(suite, func(t *testing.T) { rows = append(rows, onRuntime(t, suite)...) })
	}
	printTable(rows)
}

// onRuntime runs each scenario; what is skipped says why by harness.Main.
func onRuntime(t *testing.T, suite string) (rows []row) {
	r := harness.FindRuntime(t, suite)
	rows = append(rows, row{versions: versions(t, r)})
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			if !r.Has(s.workload.Program) {
				harness.Skip(t, fmt.Sprintf("Debian %s: %s was not built", suite, s.workload.Program))
			}
			s.workload.Runtime = &r
			result := row{scenario: s.name, cycles: max(cycles(t)/s.share, 1)}
			defer func() {
				result.failed = t.Failed()
				rows = append(rows, result)
			}()
			result.measure(t, s.workload)
		})
	}
	return rows
}

// versions names a release and what it has, by its package database.
func versions(t *testing.T, r harness.Runtime) string {
	hip := r.Version(t, "libamdhip64-[0-9]")
	if hip == "" {
		hip = "none"
	}
	return fmt.Sprintf("Debian %s: ROCr %s, HIP %s, glibc %s", r.Suite, r.Version(t, "libhsa-runtime64-1"), hip, r.Version(t, "libc6"))
}

// measure attaches again and again, and then holds everything to the truth.
func (w *row) measure(t *testing.T, workload harness.Workload) {
	p := harness.Start(t, workload)
	before, slots := p.Snapshot(t), p.Slots(t)
	runs := p.Reattach(t, w.cycles)
	for _, item := range p.Snapshot(t).Left(before) {
		if !strings.Contains(item, gpuMemory) { // comes and goes with the workload's queues
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
	w.of.MustHaveRecorded(50 * w.cycles)
}
