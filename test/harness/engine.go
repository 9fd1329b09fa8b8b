package harness

import (
	"cmp"
	"database/sql"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Engine is the inference engine in Python. interpreter: "": this machine's.
func Engine(t testing.TB, interpreter string) Workload {
	t.Helper()
	if interpreter == "" {
		interpreter = Python(t)
	}
	return Workload{Program: "engine.py", Under: []string{interpreter}, Sim: []string{"SOFTGPU_KERNEL_NS=150000"}, LogsCalls: true}
}

// Infer is the HIP server in C++ that logs its phases as the engine does.
func Infer() Workload {
	return Workload{Program: "infer", Sim: []string{"SOFTGPU_KERNEL_NS=150000"}, LogsCalls: true}
}

// EnginePhase is a time in which the engine's thread was in a function, by its own clock.
type EnginePhase struct {
	Function       string
	BeginNS, EndNS int64
}

// EngineLog reads the log of an ended engine.
func (p *Process) EngineLog(t testing.TB) (all []EnginePhase) {
	t.Helper()
	b, err := os.ReadFile(p.calls)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var e EnginePhase
		if err := scanLine(line, &e.Function, &e.BeginNS, &e.EndNS); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

// IdlePhases returns the time of the phases while the GPU was idle and the next kernel was not submitted, from
// beginNS to endNS, by function, and the idle time of the whole trace. The trace has one GPU.
func IdlePhases(t testing.TB, path string, phases []EnginePhase, beginNS, endNS int64) (ns map[string]int64, idleNS int64) {
	t.Helper()
	db, err := tracedb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	slices.SortFunc(phases, func(a, b EnginePhase) int { return cmp.Compare(a.BeginNS, b.BeginNS) })
	ns = map[string]int64{}
	reached := int64(0)
	err = each(db, `SELECT start_ns, start_ns + duration_ns, start_ns - queued_ns FROM rtl_dispatch WHERE queued_ns IS NOT NULL ORDER BY start_ns`,
		func(r *sql.Rows) error {
			var start, end, submit int64
			if err := r.Scan(&start, &end, &submit); err != nil {
				return err
			}
			if reached > 0 && start > reached {
				idleNS += start - reached
				from, until := max(reached, beginNS), min(start, submit, endNS)
				first, _ := slices.BinarySearchFunc(phases, from, func(p EnginePhase, ns int64) int { return cmp.Compare(p.EndNS, ns) })
				for _, p := range phases[first:] {
					if p.BeginNS >= until {
						break
					}
					ns[p.Function] += max(0, min(until, p.EndNS)-max(from, p.BeginNS))
				}
			}
			reached = max(reached, end)
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return ns, idleNS
}
