package harness

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rtl-attach/rtl-attach/internal/kind/allocations"
	"github.com/rtl-attach/rtl-attach/internal/report"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Allocator is the program that allocates and releases memory: ten threads, in each way at least two.
func Allocator(args ...string) Workload {
	return Workload{Program: "allocate", Args: args, Sim: []string{"SOFTGPU_GPUS=2"}, Frees: true, LogsCalls: true}
}

// Allocation is a row of rtl_allocation. Addresses that are not there are 0.
type Allocation struct {
	ID, TID        int64
	Operation      allocations.Operation
	GPU            int64 // -1: the host's, or not known
	Address, Bytes int64
	Status         int64
	StartNS, EndNS int64
}

// ReadAllocations reads a trace's allocations and releases in the order of starts, and their account.
func ReadAllocations(t testing.TB, path string) (found []Allocation, account CopyCoverage) {
	t.Helper()
	db, err := tracedb.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = each(db, `SELECT a.id, coalesce(t.tid, 0), a.operation, coalesce(g.gpu_id, -1), coalesce(a.address, 0), coalesce(a.bytes, 0), a.status,
			a.start_ns, a.start_ns + a.duration_ns
		FROM rtl_allocation a LEFT JOIN rtl_thread t ON t.id = a.thread_id LEFT JOIN rtl_agent g ON g.id = a.agent_id
		ORDER BY a.start_ns, a.id`, func(r *sql.Rows) error {
		var a Allocation
		err := r.Scan(&a.ID, &a.TID, &a.Operation, &a.GPU, &a.Address, &a.Bytes, &a.Status, &a.StartNS, &a.EndNS)
		found = append(found, a)
		return err
	})
	err = errors.Join(err, db.QueryRow("SELECT coalesce(sum(begun), 0), coalesce(sum(timed), 0), coalesce(sum(untimed), 0), coalesce(sum(unexplained), 0) FROM rtl_kind_coverage WHERE kind = 'memory-allocation'").
		Scan(&account.Begun, &account.Timed, &account.Untimed, &account.Unexplained))
	if err != nil {
		t.Fatal(err)
	}
	return found, account
}

// AllocationCall is the program's log entry of one call.
type AllocationCall struct {
	TID               int64
	Way, What         string
	BeforeNS, AfterNS int64
	Address, Bytes    int64
	Status            int64
}

// AllocationCalls reads the log of an ended program, by thread and in order.
func (p *Process) AllocationCalls(t testing.TB) map[int64][]AllocationCall {
	t.Helper()
	b, err := os.ReadFile(p.calls)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[int64][]AllocationCall{}
	for line := range strings.Lines(string(b)) {
		var c AllocationCall
		if err := scanLine(line, &c.TID, &c.Way, &c.What, &c.BeforeNS, &c.AfterNS, &c.Address, &c.Bytes, &c.Status); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		calls[c.TID] = append(calls[c.TID], c)
	}
	return calls
}

// operations are what the ways that call the HSA runtime directly do.
var operations = map[string]allocations.Operation{
	"pool allocate": allocations.Pool, "pool free": allocations.PoolFree, "region allocate": allocations.Region,
	"region free": allocations.RegionFree, "virtual allocate": allocations.Virtual, "virtual free": allocations.VirtualFree,
}

// isDirect reports whether the call is one of the HSA runtime.
func (c AllocationCall) isDirect() bool { return !strings.HasPrefix(c.Way, "hip-") }

// in reports whether a record's times lie in the call.
func (c AllocationCall) in(a Allocation) bool {
	return a.StartNS >= c.BeforeNS-stampToleranceNS && a.EndNS <= c.AfterNS+stampToleranceNS
}

// is reports whether the record is that of a direct call, to the byte.
func (c AllocationCall) is(a Allocation) bool {
	return c.in(a) && operations[c.Way+" "+c.What] == a.Operation && a.Address == c.Address && a.Bytes == c.Bytes && a.Status == c.Status
}

// holds reports whether the record is of the memory of a call of HIP.
func (c AllocationCall) holds(a Allocation) bool {
	releases := a.Operation >= allocations.PoolFree
	return c.in(a) && a.Status == 0 && a.Address == c.Address && releases == (c.What == "free") && (releases || a.Bytes >= c.Bytes)
}

// AllocationComparison compares the allocations in all traces of one process with its calls.
type AllocationComparison struct {
	faults
	calls map[int64][]AllocationCall

	All bool // each session began before the program's first call: it has the first ones, too

	Direct, ByHIP map[string]int // compared calls, by way and operation
	Failed        int            // of the direct calls
	Lost          int64          // calls that the sessions' accounts count as lost
	Missing       int            // of those that had to be recorded
}

// CompareAllocations compares the traces of a process that has ended.
func CompareAllocations(t testing.TB, p *Process, runs ...Run) *AllocationComparison {
	t.Helper()
	c := NewAllocationComparison(t, p.AllocationCalls(t))
	for _, run := range runs {
		rows, account := ReadAllocations(t, run.Trace)
		MustSayAllocations(t, run.Summary, rows, account)
		c.Add(rows, account)
	}
	return c
}

// NewAllocationComparison begins a comparison. Call Add for each trace.
func NewAllocationComparison(t Reporter, calls map[int64][]AllocationCall) *AllocationComparison {
	return &AllocationComparison{faults: faults{t: t, n: map[string]int{}}, calls: calls, Direct: map[string]int{}, ByHIP: map[string]int{}}
}

// Add compares what one session recorded, in the order of starts. Calls are recorded between two
// moments, which are the same for all threads: a call that lies between the first recorded begin and the
// last recorded end must be there, or have been counted as lost.
func (c *AllocationComparison) Add(rows []Allocation, account CopyCoverage) {
	c.t.Helper()
	if c.Lost += account.Unexplained; account.Unexplained < 0 || account.Untimed != 0 {
		c.wrong("account", "%+v", account)
	}
	byThread := map[int64][]Allocation{}
	fromNS, untilNS := int64(math.MaxInt64), int64(0)
	for _, r := range rows {
		byThread[r.TID] = append(byThread[r.TID], r)
		fromNS, untilNS = min(fromNS, r.StartNS), max(untilNS, r.EndNS)
	}
	if c.All {
		fromNS = 0
	}
	for tid, calls := range c.calls {
		if calls[0].isDirect() {
			c.direct(calls, byThread[tid], fromNS, untilNS)
		} else {
			c.byHIP(calls, byThread[tid], fromNS, untilNS)
		}
		delete(byThread, tid)
	}
	for tid, rows := range byThread { // threads of HIP's own
		for _, r := range rows {
			if r.Status != 0 || r.Operation < allocations.PoolFree && r.Bytes <= 0 {
				c.wrong("others", "thread %d: %+v", tid, r)
			}
		}
	}
}

// direct compares the calls of a thread with its records, which have the same order.
func (c *AllocationComparison) direct(calls []AllocationCall, rows []Allocation, fromNS, untilNS int64) {
	c.t.Helper()
	for _, r := range rows {
		at := slices.IndexFunc(calls, func(call AllocationCall) bool { return call.is(r) })
		if at < 0 {
			c.wrong("call", "%+v", r)
			continue
		}
		c.missing(calls[:at], fromNS, untilNS)
		c.Direct[calls[at].Way+" "+calls[at].What]++
		if r.Status != 0 {
			c.Failed++
		}
		calls = calls[at+1:] // none twice
		if len(calls) == 0 {
			return
		}
	}
	c.missing(calls, fromNS, untilNS)
}

func (c *AllocationComparison) missing(calls []AllocationCall, fromNS, untilNS int64) {
	c.t.Helper()
	for _, call := range calls {
		if call.BeforeNS >= fromNS+stampToleranceNS && call.AfterNS <= untilNS-stampToleranceNS {
			c.leave(call)
		}
	}
}

// leave counts a call without a record.
func (c *AllocationComparison) leave(call AllocationCall) {
	c.t.Helper()
	if c.Missing++; int64(c.Missing) > c.Lost {
		c.wrong("missing", "%+v", call)
	}
}

// byHIP finds the memory of each call in a record of the same thread within the call.
func (c *AllocationComparison) byHIP(calls []AllocationCall, rows []Allocation, fromNS, untilNS int64) {
	c.t.Helper()
	for _, call := range calls {
		if call.BeforeNS < fromNS+stampToleranceNS || call.AfterNS > untilNS-stampToleranceNS || call.Status != 0 {
			continue
		}
		from, _ := slices.BinarySearchFunc(rows, call.BeforeNS-stampToleranceNS, func(r Allocation, ns int64) int { return cmp.Compare(r.StartNS, ns) })
		found := 0
		for _, r := range rows[from:] {
			if r.StartNS > call.AfterNS {
				break
			}
			if call.holds(r) {
				found++
			}
		}
		switch found {
		case 0:
			c.leave(call)
		case 1:
			c.ByHIP[call.Way+" "+call.What]++
		default:
			c.wrong("hip", "%+v: %d records have its memory", call, found)
		}
	}
}

// SaysOfAllocations returns a summary's section on allocations; nil: none.
func SaysOfAllocations(t testing.TB, s report.Summary) *allocations.Report {
	t.Helper()
	said := s.Kinds[ring.KindMemoryAllocation.String()]
	if said == nil {
		return nil
	}
	text, err := json.Marshal(said)
	all := &allocations.Report{}
	if err := errors.Join(err, json.Unmarshal(text, all)); err != nil {
		t.Fatal(err)
	}
	return all
}

// MustSayAllocations checks the summary's numbers against the rows.
func MustSayAllocations(t testing.TB, s report.Summary, rows []Allocation, account CopyCoverage) {
	t.Helper()
	all := SaysOfAllocations(t, s)
	if all == nil {
		t.Fatal("the summary says nothing of allocations")
	}
	var calls, bytes, failed, saidCalls, saidBytes, saidFailed int64
	for _, r := range rows {
		switch {
		case r.Status != 0:
			failed++
		default:
			calls++
			bytes += r.Bytes
		}
	}
	for _, o := range all.Operations {
		saidCalls += o.Calls
		if !strings.HasSuffix(o.Operation, "free") && !strings.HasSuffix(o.Operation, "release") {
			saidBytes += o.Bytes
		}
	}
	for _, f := range all.Failures {
		saidFailed += f.Calls
	}
	if saidCalls != calls || saidBytes != bytes || saidFailed != failed || all.Recorded != int64(len(rows)) {
		t.Errorf("summary %+v; the rows say %d calls, %d bytes, %d failed", *all, calls, bytes, failed)
	}
	if account.Begun != all.Begun || account.Timed != int64(len(rows)) || account.Begun != account.Timed+account.Unexplained {
		t.Errorf("account %+v; there are %d rows", account, len(rows))
	}
}
