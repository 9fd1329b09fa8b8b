package scratch

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

var export = kind.Export{
	Events: events,
	CSV: &kind.CSV{
		Format: "csv-scratch", Suffix: "_scratch_memory_trace.csv", For: "operations on scratch memory, with rocprofv3's columns",
		Header: []string{ // rocprofv3's names, the ninth since ROCm 7, and four more
			"Kind", "Operation", "Agent_Id", "Queue_Id", "Thread_Id", "Alloc_Flags", "Start_Timestamp", "End_Timestamp", "Allocation_Size",
			"Slots", "Dispatch_Index", "Process_Id", "Session_Id",
		},
	},
	Array:      "scratch_memory",
	BufferKind: 12, // ROCPROFILER_BUFFER_TRACING_SCRATCH_MEMORY
}

// names are rocprofiler's, by Operation; rocprofiler's numbers begin at 1.
var names = [operations]string{"SCRATCH_MEMORY_ALLOC", "SCRATCH_MEMORY_FREE", "SCRATCH_MEMORY_ASYNC_RECLAIM"}

// owner is a queue of a session.
type owner struct {
	session *traceread.Session
	address int64
}

// row is an operation with a start and an end in the file.
type row struct {
	id, session, tid       int64
	address, queue, agent  sql.NullInt64
	operation              int64
	bytes, slots, dispatch sql.NullInt64
	flags, startNS, endNS  int64
}

// columns are what scan reads.
const columns = `SELECT c.id, c.session_id, coalesce(t.tid, 0), c.queue_address, q.queue_id, q.agent_id, c.operation, c.bytes, c.slots,
	c.dispatch, c.flags, c.start_ns, c.end_ns FROM rtl_scratch c LEFT JOIN rtl_thread t ON t.id = c.thread_id
	LEFT JOIN rtl_scratch_queue q ON q.session_id = c.session_id AND q.address = c.queue_address`

func (o *row) scan(r traceread.Row) error {
	return r.Scan(&o.id, &o.session, &o.tid, &o.address, &o.queue, &o.agent, &o.operation, &o.bytes, &o.slots,
		&o.dispatch, &o.flags, &o.startNS, &o.endNS)
}

// isPossible reports whether a recorder can have written the row.
func (o *row) isPossible() bool {
	isAllocation := Operation(o.operation) == Allocate
	return o.operation >= 0 && o.operation < int64(operations) && o.flags >= 0 &&
		o.bytes.Valid == isAllocation && o.slots.Valid == isAllocation && o.dispatch.Valid == isAllocation &&
		o.bytes.Int64 >= 0 && o.bytes.Int64 <= kind.MostCount && o.slots.Int64 >= 0 && o.dispatch.Int64 >= 0 &&
		o.endNS >= o.startNS && traceread.Possible(o.startNS, o.endNS-o.startNS)
}

// eventReader makes the events of a trace.
type eventReader struct {
	trace  *traceread.Trace
	tracks map[owner]*kind.Track
	event  kind.Event
}

func events(ctx context.Context, tr *traceread.Trace, visit func(*kind.Event) error) (leftOut int64, err error) {
	r := eventReader{trace: tr, tracks: map[owner]*kind.Track{}}
	err = tr.Each(ctx, func(in traceread.Row) error {
		var o row
		if err := o.scan(in); err != nil {
			return err
		}
		session := tr.Session(o.session)
		if session == nil || !o.isPossible() {
			leftOut++
			return nil
		}
		if err := r.fill(&o, session); err != nil {
			return err
		}
		return visit(&r.event)
	}, columns+" WHERE c.start_ns IS NOT NULL AND c.end_ns IS NOT NULL ORDER BY c.start_ns, c.end_ns DESC, c.id")
	return leftOut, err
}

// track returns the track of a queue, below its GPU.
func (r *eventReader) track(o *row, s *traceread.Session) (*kind.Track, error) {
	of := owner{s, o.address.Int64}
	if t := r.tracks[of]; t != nil {
		return t, nil
	}
	if len(r.tracks) >= traceread.MostDefinitions {
		return nil, fmt.Errorf("over %d queues: %w", len(r.tracks), traceread.ErrImpossible)
	}
	t := &kind.Track{
		Kind: "scratch", Number: int64(len(r.tracks)), Session: s, GPU: r.trace.Agents[o.agent.Int64],
		Name:  fmt.Sprintf("scratch memory of queue %d", o.queue.Int64),
		About: "the runtime allocates, frees and takes back scratch memory", Rank: 6, Nested: true,
	}
	if !o.queue.Valid {
		t.Name = fmt.Sprintf("scratch memory of the queue at %#x", uint64(o.address.Int64))
	}
	r.tracks[of] = t
	return t, nil
}

// fill fills in the event of an operation.
func (r *eventReader) fill(o *row, s *traceread.Session) (err error) {
	e := &r.event
	if e.Track, err = r.track(o, s); err != nil {
		return err
	}
	e.ID, e.TID, e.StartNS, e.EndNS = o.id, o.tid, o.startNS, o.endNS
	e.Name, e.Category, e.Operation = names[o.operation], "scratch_memory", o.operation+1
	e.Args = append(e.Args[:0], kind.Arg{Name: "flags", Value: o.flags})
	if Operation(o.operation) == Allocate {
		e.Args = append(e.Args, kind.Arg{Name: "allocation_size", Value: o.bytes.Int64}, kind.Arg{Name: "slots", Value: o.slots.Int64},
			kind.Arg{Name: "dispatch", Value: o.dispatch.Int64})
	}
	agent, agentName := int64(0), ""
	if a := r.trace.Agents[o.agent.Int64]; a != nil {
		agent, agentName = a.ID, fmt.Sprintf("GPU %d", a.GPU)
	}
	e.Fields = append(e.Fields[:0],
		kind.Field{Name: "agent_id", Value: agent, Handle: true},
		kind.Field{Name: "queue_id", Value: o.queue.Int64, Handle: true},
		kind.Field{Name: "flags", Value: o.flags},
		kind.Field{Name: "allocation_size", Value: o.bytes.Int64})
	e.Row = append(e.Row[:0], "SCRATCH_MEMORY", e.Name, agentName, o.queue.Int64, o.tid, o.flags, o.startNS, o.endNS, o.bytes.Int64,
		o.slots.Int64, o.dispatch.Int64, s.Process.ID.PID, s.ID)
	return nil
}
