package allocations

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// mostShown is how many of the largest unreleased blocks a report lists.
const mostShown = 10

// Report is the section on allocations: Begun is the sum of Recorded and Unexplained. The other
// fields count the calls that start in the report's window.
type Report struct {
	Begun       int64           `json:"begun"`
	Recorded    int64           `json:"recorded"`
	Unexplained int64           `json:"unexplained"` // begun, and no record accounts for them
	Surplus     int64           `json:"surplus"`     // recorded, but never begun: the numbers are wrong
	Operations  []*OperationSum `json:"operations"`  // that succeeded
	Memory      []*Memory       `json:"memory"`
	Older       int64           `json:"releases_of_older_memory"` // whose allocation is not in the trace: of unknown size
	Unreleased  []Block         `json:"largest_unreleased"`       // at most ten
	Sites       []Site          `json:"unreleased_by_call"`       // all unreleased blocks; at most 100 sites, the most bytes first
	SitesInAll  int64           `json:"unreleased_by_call_in_all"`
	Failures    []*Failure      `json:"failures"`
}

// OperationSum sums up the successful calls of one operation on one memory. The size of a release
// is that of its allocation.
type OperationSum struct {
	Memory    string `json:"memory"` // GPU N, host, unknown
	Operation string `json:"operation"`
	Calls     int64  `json:"calls"`
	Bytes     int64  `json:"bytes"`
	TotalNS   int64  `json:"total_ns"`

	of        owner
	operation Operation
}

// Memory is what the allocations in the window held of one memory, in all processes.
type Memory struct {
	Memory           string `json:"memory"`
	PeakBytes        int64  `json:"peak_bytes"`
	PeakNS           int64  `json:"peak_ns"`           // the first time of the peak
	UnreleasedBlocks int64  `json:"unreleased_blocks"` // at the window's end
	UnreleasedBytes  int64  `json:"unreleased_bytes"`

	of owner
}

// Block is memory that was allocated in the window and not released in it.
type Block struct {
	Memory    string `json:"memory"`
	Operation string `json:"operation"`
	Bytes     int64  `json:"bytes"`
	Address   string `json:"address"` // hexadecimal; or the handle of virtual memory
	PID       int64  `json:"pid"`
	TID       int64  `json:"tid"` // the calling thread; 0: not known
	StartNS   int64  `json:"start_ns"`
	Function  string `json:"function"` // as in Site

	id int64
}

// Failure sums up the calls of one operation that returned one status.
type Failure struct {
	Operation string `json:"operation"`
	Status    int64  `json:"status"` // hsa_status_t
	Name      string `json:"name"`
	Calls     int64  `json:"calls"`
	Bytes     int64  `json:"bytes"`

	operation Operation
}

var operationTable = kind.Table{
	Name: "allocations", Columns: []string{"memory", "operation", "calls", "bytes", "total_ns"},
	Rows: func(value any) (rows [][]any) {
		for _, o := range value.(*Report).Operations {
			rows = append(rows, []any{o.Memory, o.Operation, o.Calls, o.Bytes, o.TotalNS})
		}
		return rows
	},
}

var blockTable = kind.Table{
	Name: "unreleased", Columns: []string{"memory", "operation", "bytes", "address", "pid", "tid", "start_ns", "function"},
	Rows: func(value any) (rows [][]any) {
		for _, b := range value.(*Report).Unreleased {
			rows = append(rows, []any{b.Memory, b.Operation, b.Bytes, b.Address, b.PID, b.TID, b.StartNS, b.Function})
		}
		return rows
	},
}

// read returns nil if allocations were not recorded.
func read(r *kind.Reading) (*kind.Section, error) {
	c := &Report{Operations: []*OperationSum{}, Memory: []*Memory{}, Unreleased: []Block{}, Sites: []Site{}, Failures: []*Failure{}}
	recorded, err := c.readAccounts(r)
	if err != nil || !recorded {
		return nil, err
	}
	t := newTally(c, r.Window)
	if err := eachEntry(r.Ctx, r.Trace, t.add); err != nil {
		return nil, err
	}
	if err := t.findCallers(r); err != nil {
		return nil, err
	}
	t.finish()
	return &kind.Section{Value: c, Lines: c.lines(r.Where, r.Trace.ZeroNS()), None: c.none(), Timed: t.calls}, nil
}

// readAccounts adds up the calls that were begun. A killed recorder has written no final account:
// only the recorded calls of its session are known.
func (c *Report) readAccounts(r *kind.Reading) (recorded bool, err error) {
	account, surplus, sessions := kind.Accounts(r.Trace, ring.KindMemoryAllocation)
	c.Begun, c.Unexplained, c.Surplus = account.Begun, account.Unexplained, surplus
	err = r.Trace.Define(r.Ctx, func(row traceread.Row) error {
		var of, calls int64
		if err := row.Scan(&of, &calls); err != nil {
			return err
		}
		recorded = true
		c.Recorded = traceread.Sum(c.Recorded, calls)
		if s := r.Trace.Session(of); s != nil {
			if _, settled := s.Kinds[ring.KindMemoryAllocation.String()]; settled {
				return nil
			}
		}
		c.Begun = traceread.Sum(c.Begun, calls)
		return nil
	}, "SELECT session_id, count(*) FROM rtl_allocation GROUP BY session_id")
	return recorded || sessions > 0, err
}

// tally counts the calls that start in a window.
type tally struct {
	*Report
	window     traceread.Span
	calls      int64
	memory     map[owner]*holding
	operations map[operationKey]*OperationSum
	failures   map[failureKey]*Failure
	unreleased map[int64]*block // by the allocation's id
}

type (
	operationKey struct {
		of        owner
		operation Operation
	}
	failureKey struct {
		operation Operation
		status    int64
	}
)

// holding is what the window's allocations hold of a memory at one time.
type holding struct {
	Memory
	bytes int64
}

func newTally(r *Report, window traceread.Span) *tally {
	return &tally{
		Report: r, window: window, memory: map[owner]*holding{}, operations: map[operationKey]*OperationSum{},
		failures: map[failureKey]*Failure{}, unreleased: map[int64]*block{},
	}
}

func (t *tally) add(e entry) error {
	in := e.startNS >= t.window.BeginNS && e.startNS < t.window.EndNS
	if in {
		t.count(e)
	}
	if e.gone != nil && e.atNS() < t.window.EndNS {
		t.release(e.gone)
	}
	if e.made != nil && in {
		t.hold(e.made)
	}
	if len(t.unreleased) > mostBlocks {
		return errTooMany
	}
	return nil
}

// count counts a call that starts in the window.
func (t *tally) count(e entry) {
	t.calls++
	if e.status != 0 {
		t.fail(e.call)
		return
	}
	of, bytes := e.owner(), e.bytes.Int64
	if e.operation.isRelease() {
		if e.gone == nil {
			if e.address.Valid { // releasing nothing is allowed
				t.Older++
			}
		} else {
			of, bytes = e.gone.owner, e.gone.bytes.Int64
		}
	}
	key := operationKey{of, e.operation}
	sum := t.operations[key]
	if sum == nil {
		sum = &OperationSum{Memory: of.String(), Operation: names[e.operation], of: of, operation: e.operation}
		t.operations[key] = sum
	}
	sum.Calls++
	sum.Bytes = traceread.Sum(sum.Bytes, bytes)
	sum.TotalNS = traceread.Sum(sum.TotalNS, e.durationNS)
}

func (t *tally) fail(c *call) {
	key := failureKey{c.operation, c.status}
	f := t.failures[key]
	if f == nil {
		if len(t.failures) >= traceread.MostDefinitions {
			return // no runtime has so many statuses
		}
		f = &Failure{Operation: names[c.operation], Status: c.status, Name: statusName(c.status), operation: c.operation}
		t.failures[key] = f
	}
	f.Calls++
	f.Bytes = traceread.Sum(f.Bytes, c.bytes.Int64)
}

func (t *tally) hold(b *block) {
	h := t.memory[b.owner]
	if h == nil {
		h = &holding{Memory: Memory{Memory: b.owner.String(), of: b.owner}}
		t.memory[b.owner] = h
	}
	t.unreleased[b.id] = b
	h.bytes = traceread.Sum(h.bytes, b.bytes.Int64)
	if h.bytes > h.PeakBytes {
		h.PeakBytes, h.PeakNS = h.bytes, b.atNS()
	}
}

func (t *tally) release(b *block) {
	if t.unreleased[b.id] == nil {
		return // allocated outside of the window
	}
	delete(t.unreleased, b.id)
	h := t.memory[b.owner]
	h.bytes = max(0, h.bytes-b.bytes.Int64)
}

// finish sorts what was counted.
func (t *tally) finish() {
	for _, b := range t.unreleased {
		t.leave(b)
	}
	t.addSites()
	slices.SortFunc(t.Unreleased, largerFirst)
	t.Unreleased = t.Unreleased[:min(len(t.Unreleased), mostShown)]
	for _, o := range t.operations {
		t.Operations = append(t.Operations, o)
	}
	slices.SortFunc(t.Operations, func(a, b *OperationSum) int {
		return cmp.Or(compareOwners(a.of, b.of), cmp.Compare(a.operation, b.operation))
	})
	for _, h := range t.memory {
		t.Memory = append(t.Memory, &h.Memory)
	}
	slices.SortFunc(t.Memory, func(a, b *Memory) int { return compareOwners(a.of, b.of) })
	for _, f := range t.failures {
		t.Failures = append(t.Failures, f)
	}
	slices.SortFunc(t.Failures, func(a, b *Failure) int {
		return cmp.Or(cmp.Compare(a.operation, b.operation), cmp.Compare(a.Status, b.Status))
	})
}

// leave counts a block that was not released, and keeps it if it is one of the largest.
func (t *tally) leave(b *block) {
	h := t.memory[b.owner]
	h.UnreleasedBlocks++
	h.UnreleasedBytes = traceread.Sum(h.UnreleasedBytes, b.bytes.Int64)
	t.Unreleased = append(t.Unreleased, Block{
		Memory: b.owner.String(), Operation: names[b.operation], Bytes: b.bytes.Int64, Address: fmt.Sprintf("%#x", uint64(b.address.Int64)),
		PID: b.session.Process.ID.PID, TID: b.tid, StartNS: b.startNS, Function: b.function, id: b.id,
	})
	if len(t.Unreleased) > 2*mostShown {
		slices.SortFunc(t.Unreleased, largerFirst)
		t.Unreleased = t.Unreleased[:mostShown]
	}
}

func largerFirst(a, b Block) int {
	return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.id, b.id))
}

// compareOwners sorts GPUs before the host, and the unknown last.
func compareOwners(a, b owner) int {
	rank := func(o owner) int64 {
		switch {
		case !o.known:
			return traceread.LatestNS
		case o.gpu < 0:
			return traceread.LatestNS - 1
		}
		return o.gpu
	}
	return cmp.Compare(rank(a), rank(b))
}
