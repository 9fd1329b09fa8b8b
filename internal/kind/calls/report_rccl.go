package calls

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Bounds of what a report holds in memory of RCCL's calls.
const (
	mostTransfers = 1 << 19
	mostComms     = 1 << 8
)

// Collectives is what a report says of RCCL's collectives, sends and receives.
type Collectives struct {
	Communicators []Communicator `json:"communicators"` // the largest number of calls first
	Mixed         int64          `json:"mixed_groups"`  // groups of several communicators, whose kernels belong to none
	LeftOut       int64          `json:"left_out"`      // calls beyond what a report holds, or without a known communicator
}

// Communicator is the ranks in the trace that belong together.
type Communicator struct {
	MatchedBy string        `json:"matched_by"` // id: they were made in the recording; calls: they make the same calls; none: there is one
	Ranks     []Rank        `json:"ranks"`
	Functions []TransferSum `json:"functions"`          // the largest time of kernels first
	Lateness  *RankLateness `json:"lateness,omitempty"` // if several ranks are in the trace
	calls     int64
}

// Rank is one rank: an ncclComm_t of a process.
type Rank struct {
	Rank   int64  `json:"rank"` // -1: not known
	PID    int64  `json:"pid"`
	Thread int64  `json:"thread"` // that called first; 0: not known
	Name   string `json:"thread_name"`
	Last   int64  `json:"last"` // of the compared operations: how many it began last
}

// TransferSum sums up the calls of one function, or of groups with the same functions.
type TransferSum struct {
	Function       string `json:"function"` // several, joined by +: groups
	Calls          int64  `json:"calls"`
	Bytes          int64  `json:"bytes"`            // the calls' count times the size of their type
	Unsized        int64  `json:"unsized"`          // calls whose bytes are not known
	Kernels        int64  `json:"kernels"`          // that the calls, or the ends of their groups, submitted
	GPUNS          int64  `json:"gpu_ns"`           // the sum of the kernels' times
	BytesPerSecond int64  `json:"bytes_per_second"` // algorithm bandwidth: bytes of the calls with kernels, by gpu_ns

	timedBytes int64
}

// RankLateness is how long after the first rank the last one called, for each operation.
type RankLateness struct {
	Operations int64 `json:"operations"`
	P50NS      int64 `json:"p50_ns"`
	P99NS      int64 `json:"p99_ns"`
	MaxNS      int64 `json:"max_ns"`
}

// transfer is a call that moves data, or a member of a group.
type transfer struct {
	id, startNS int64
	group       int64 // the call that ended its group; 0: it is alone
	comm        *comm
	function    string
	operation   operation
	bytes       int64 // -1: not known
}

// operation is what all ranks of a communicator say of the same operation.
type operation struct {
	function          string
	count, kind, root uint64
}

// submitted is the kernels of a call.
type submitted struct{ kernels, gpuNS int64 }

// typeBytes has the sizes of ncclDataType_t.
var typeBytes = [...]uint64{1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1}

// readCollectives reads the calls that begin in the window; nil: there are none.
func readCollectives(r *kind.Reading, a *api) (*Collectives, error) {
	known, _, err := a.functionsOf(r.Ctx, r.Trace)
	if err != nil || len(known) == 0 {
		return nil, err
	}
	in := &transfers{known: known, comms: map[commKey]*comm{}}
	if err := in.read(r, a); err != nil || len(in.all) == 0 {
		return nil, err
	}
	kernels, err := in.kernels(r)
	if err != nil {
		return nil, err
	}
	c := &Collectives{LeftOut: in.leftOut}
	groups := match(in.order)
	c.sum(in.all, kernels)
	for _, g := range groups {
		c.Communicators = append(c.Communicators, g.report())
	}
	slices.SortStableFunc(c.Communicators, func(a, b Communicator) int { return cmp.Compare(b.calls, a.calls) })
	return c, nil
}

// transfers reads RCCL's calls.
type transfers struct {
	known   map[int64]*named
	comms   map[commKey]*comm // that are in use
	order   []*comm           // all
	all     []transfer
	leftOut int64
}

func (in *transfers) read(r *kind.Reading, a *api) error {
	return r.Trace.Each(r.Ctx, func(row traceread.Row) error {
		var c rcclCall
		var function, session int64
		var blob []byte
		err := row.Scan(&c.id, &session, &function, &c.tid, &c.threadName, &c.startNS, &c.failed, &c.flags, &blob, &c.group)
		f, of := in.known[function], r.Trace.Session(session)
		if err != nil || f == nil || f.Function == nil || of == nil {
			return err
		}
		words, n := wordsOf(blob)
		c.session, c.pid, c.function = session, of.Process.ID.PID, f
		c.registers, c.stack = [registers]uint64(words[:registers]), words[registers:max(n, registers)]
		in.add(&c, c.startNS >= r.Window.BeginNS && c.startNS < r.Window.EndNS)
		return nil
	}, `SELECT c.id, c.session_id, c.function_id, coalesce(t.tid, 0), coalesce(t.name, ''), c.start_ns, coalesce(c.result, 0) <> 0, c.flags,
			c.arguments, coalesce(g.group_id, 0)
		FROM rtl_call c JOIN rtl_function f ON f.id = c.function_id LEFT JOIN rtl_thread t ON t.id = c.thread_id
		LEFT JOIN rccl_group_call g ON g.call_id = c.id
		WHERE f.api_id = (SELECT id FROM rocpd_string WHERE string = ?) AND c.start_ns >= 0 ORDER BY c.start_ns, c.id`, a.id.String())
}

// rcclCall is a call of RCCL in the trace.
type rcclCall struct {
	id, session, pid, tid, startNS, flags, group int64
	threadName                                   string
	failed                                       bool
	function                                     *named
	registers                                    [registers]uint64
	stack                                        []uint64
}

func (c *rcclCall) word(name string) (uint64, bool) {
	return c.function.Word(name, c.registers, c.stack)
}

// add takes what a call says of its communicator, and the call itself if it moves data and is in the window.
func (in *transfers) add(c *rcclCall, inWindow bool) {
	if c.failed {
		return
	}
	if in.describe(c) {
		return
	}
	if _, has := c.word("stream"); !has || !inWindow {
		return // it moves nothing, or not now
	}
	kind, typed := c.word("datatype")
	handle, has := c.word("comm")
	of := in.comm(c, handle)
	if !has || of == nil || len(in.all) == mostTransfers {
		in.leftOut++
		return
	}
	t := transfer{id: c.id, startNS: c.startNS, group: c.group, comm: of, function: c.function.name, bytes: -1}
	for _, name := range []string{"count", "sendcount", "recvcount"} {
		if count, has := c.word(name); has && typed {
			t.operation.count, t.bytes = count, bytesOf(count, kind)
		}
	}
	t.operation.function, t.operation.kind = t.function, kind
	t.operation.root, _ = c.word("root")
	in.all = append(in.all, t)
	of.add(&t)
}

// bytesOf returns the bytes of a number of elements; -1: the type is not known.
func bytesOf(count, kind uint64) int64 {
	if kind >= uint64(len(typeBytes)) {
		return -1
	}
	if size := typeBytes[kind]; count <= math.MaxInt64/size {
		return int64(count * size)
	}
	return math.MaxInt64
}

// kernels reads what the calls, and the ends of their groups, submitted.
func (in *transfers) kernels(r *kind.Reading) (map[int64]submitted, error) {
	by := map[int64]submitted{}
	for i := range in.all {
		by[in.all[i].call()] = submitted{}
	}
	return by, r.Trace.Each(r.Ctx, func(row traceread.Row) error {
		var call int64
		var k submitted
		err := row.Scan(&call, &k.kernels, &k.gpuNS)
		if _, asked := by[call]; asked {
			by[call] = submitted{max(0, k.kernels), max(0, k.gpuNS)}
		}
		return err
	}, `SELECT x.call_id, count(*), CAST(total(max(0, e.duration_ns)) AS INTEGER) FROM call_kernel x JOIN rtl_execution e ON e.id = x.kernel_id GROUP BY 1`)
}

// call returns the call that submits the kernels of a transfer.
func (t *transfer) call() int64 { return cmp.Or(t.group, t.id) }

// sum adds the calls to their communicators. The kernels of a group belong to no single one of its calls.
func (c *Collectives) sum(all []transfer, kernels map[int64]submitted) {
	members := map[int64][]*transfer{}
	for i := range all {
		members[all[i].call()] = append(members[all[i].call()], &all[i])
	}
	for call, of := range members {
		functions := map[string]bool{}
		mixed := false
		for _, t := range of {
			functions[t.function] = true
			mixed = mixed || t.comm.group != of[0].comm.group
		}
		name := joined(functions)
		k := kernels[call]
		for _, t := range of {
			t.comm.group.function(name).add(t, k.kernels > 0 && !mixed)
		}
		if mixed {
			c.Mixed++
			continue
		}
		s := of[0].comm.group.function(name)
		s.Kernels, s.GPUNS = traceread.Sum(s.Kernels, k.kernels), traceread.Sum(s.GPUNS, k.gpuNS)
	}
}

func joined(functions map[string]bool) string {
	var names []string
	for f := range functions {
		names = append(names, f)
	}
	slices.Sort(names)
	return strings.Join(names, " + ")
}

func (s *TransferSum) add(t *transfer, timed bool) {
	s.Calls++
	if t.bytes < 0 {
		s.Unsized++
		return
	}
	s.Bytes = traceread.Sum(s.Bytes, t.bytes)
	if timed {
		s.timedBytes = traceread.Sum(s.timedBytes, t.bytes)
	}
}

// rate returns bytes in a second.
func rate(bytes, ns int64) int64 {
	if ns <= 0 {
		return 0
	}
	return int64(min(float64(bytes)/float64(ns)*1e9, math.MaxInt64/2))
}
