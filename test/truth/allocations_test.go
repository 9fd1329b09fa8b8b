package truth

import (
	"slices"
	"testing"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/kind/allocations"
	"github.com/rtl-attach/rtl-attach/test/harness"
	"github.com/rtl-attach/rtl-attach/test/testenv"
)

// withAllocations has settings with which a starved worker loses nothing.
var withAllocations = []string{"--memory-allocation-trace", "--buffer-policy", "lossless"}

// Every direct call is recorded, once and to the byte, and the memory of every call of HIP is
// found in a record of its thread; in the first session and in the sessions of later attaches.
func TestAllocations(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Allocator())
	runs := []harness.Run{p.RecordUntil(t, 500*time.Millisecond, 2000, withAllocations...)}
	cycles := 3
	if testenv.Long() {
		cycles = 200
	}
	for range cycles {
		runs = append(runs, p.RecordShortly(t, 80*time.Millisecond, withAllocations...))
	}
	last := p.RecordUntil(t, 200*time.Millisecond, 2000, append([]string{"--hip-runtime-trace"}, withAllocations...)...)
	runs = append(runs, last)
	p.StillAlive(t)
	p.Quit(t)
	checkCallSites(t, p, last)
	c := harness.CompareAllocations(t, p, runs...)
	for _, want := range []string{"pool allocate", "pool free", "region allocate", "region free"} {
		if c.Direct[want] < 100 {
			t.Errorf("%s: %d compared", want, c.Direct[want])
		}
	}
	for _, want := range []string{"hip-device allocate", "hip-device free", "hip-host allocate", "hip-host free"} {
		if c.ByHIP[want] < 100 {
			t.Errorf("%s: %d compared", want, c.ByHIP[want])
		}
	}
	if c.Failed < 10 {
		t.Errorf("%d of the compared calls have failed", c.Failed)
	}
	t.Logf("%d sessions: %v, %v, %d failed", len(runs), c.Direct, c.ByHIP, c.Failed)
}

// checkCallSites checks by which calls of HIP a summary says that blocks were allocated: each thread of the program uses
// one function only. A call of HIP that began before the session, or had not returned at its end, has no record: one block of a thread each.
func checkCallSites(t *testing.T, p *harness.Process, run harness.Run) {
	t.Helper()
	functions := map[string]string{"hip-device": "hipMalloc", "hip-host": "hipHostMalloc"}
	said, calls, seen := harness.SaysOfAllocations(t, run.Summary), p.AllocationCalls(t), map[string]bool{}
	var blocks, bytes int64
	for _, s := range said.Sites {
		blocks, bytes, seen[s.Function] = blocks+s.Blocks, bytes+s.Bytes, true
		of := calls[s.TID]
		if isCut := s.Function == "" && s.Blocks <= 2; len(of) == 0 || s.Function != functions[of[0].Way] && !isCut {
			t.Errorf("%+v, a thread with %d calls", s, len(of))
		}
	}
	for _, m := range said.Memory {
		blocks, bytes = blocks-m.UnreleasedBlocks, bytes-m.UnreleasedBytes
	}
	if blocks != 0 || bytes != 0 || int(said.SitesInAll) != len(said.Sites) || !seen["hipMalloc"] || !seen["hipHostMalloc"] || !seen[""] {
		t.Errorf("%d blocks, %d bytes more than there are; %+v", blocks, bytes, said.Sites)
	}
}

// allocationDamages are changes to a trace's rows; the comparison must report their kind.
var allocationDamages = []struct {
	what, kind string // kind "": none, it must be let through
	do         func(rows []harness.Allocation, victim int) []harness.Allocation
}{
	{"nothing", "", changed(func(*harness.Allocation) {})},
	{"other bytes", "call", changed(func(a *harness.Allocation) { a.Bytes++ })},
	{"another address", "call", changed(func(a *harness.Allocation) { a.Address += 4096 })},
	{"another operation", "call", changed(func(a *harness.Allocation) { a.Operation ^= 1 })},
	{"it failed", "call", changed(func(a *harness.Allocation) { a.Status = 0x1000 })},
	{"of another time", "call", changed(func(a *harness.Allocation) { a.StartNS -= 1e9 })},
	{"of no thread", "missing", changed(func(a *harness.Allocation) { a.TID = 1 })},
	{"is missing", "missing", func(rows []harness.Allocation, victim int) []harness.Allocation {
		return slices.Delete(rows, victim, victim+1)
	}},
	{"is there twice", "call", func(rows []harness.Allocation, victim int) []harness.Allocation {
		return slices.Insert(rows, victim, rows[victim])
	}},
}

func changed(how func(*harness.Allocation)) func([]harness.Allocation, int) []harness.Allocation {
	return func(rows []harness.Allocation, victim int) []harness.Allocation {
		how(&rows[victim])
		return rows
	}
}

// A comparison that cannot fail proves nothing: the comparison reports every damage to a correct
// trace.
func TestAllocationComparison(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Allocator())
	run := p.RecordLast(t, 200*time.Millisecond, 2000, withAllocations...)
	p.Quit(t)
	rows, account := harness.ReadAllocations(t, run.Trace)
	calls := p.AllocationCalls(t)
	whole := harness.NewAllocationComparison(t, calls)
	whole.Add(rows, account)
	account.Unexplained = int64(whole.Missing)
	victim := len(rows) / 2
	victim += slices.IndexFunc(rows[victim:], func(a harness.Allocation) bool {
		return a.Operation == allocations.Pool && a.Status == 0 && len(calls[a.TID]) > 0 && calls[a.TID][0].Way == "pool"
	})
	for _, d := range allocationDamages {
		t.Run(d.what, func(t *testing.T) {
			var found findings
			c := harness.NewAllocationComparison(&found, calls)
			c.Add(d.do(slices.Clone(rows), victim), account)
			if n := len(c.Faults()); d.kind == "" && n > 0 || d.kind != "" && c.Faults()[d.kind] == 0 {
				t.Errorf("expected %q, found %v", d.kind, c.Faults())
			}
		})
	}
}

// Without the option target and trace have nothing of it; afterwards nothing of it is left.
func TestAllocationsInventory(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Allocator())
	slots := p.Slots(t)
	hooks := []string{"hsa_amd_memory_pool_allocate", "hsa_memory_allocate", "hsa_amd_memory_pool_free", "hsa_memory_free"}
	for _, args := range [][]string{nil, {"--memory-allocation-trace"}} {
		r := p.Begin(t, args...)
		p.Active(t)
		now := p.Slots(t)
		for _, hook := range hooks {
			if patched := now[hook] != slots[hook]; patched != (args != nil) {
				t.Errorf("%v: %s patched: %t", args, hook, patched)
			}
		}
		r.Interrupt(t)
		run := r.Wait(t)
		if changed := p.Slots(t).Differ(slots); len(changed) > 0 {
			t.Errorf("slots changed: %v", changed)
		}
		if run.Decode() == nil && (harness.SaysOfAllocations(t, run.Summary) != nil) != (args != nil) {
			t.Errorf("%v: the summary says of allocations: %+v", args, run.Summary.Kinds)
		}
	}
	p.StillAlive(t)
	p.Quit(t)
}
