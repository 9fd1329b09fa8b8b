package allocations

import (
	"context"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

var export = kind.Export{
	Events: events,
	Levels: levels,
	CSV: &kind.CSV{
		Format: "csv-allocations", Suffix: "_memory_allocation_trace.csv", For: "allocations and releases, with rocprofv3's columns",
		Header: []string{ // rocprofv3's names, and four more
			"Kind", "Operation", "Agent_Id", "Allocation_Size", "Address", "Correlation_Id", "Start_Timestamp", "End_Timestamp",
			"Thread_Id", "Process_Id", "Session_Id", "Status",
		},
	},
	Array:      "memory_allocation",
	BufferKind: 16, // ROCPROFILER_BUFFER_TRACING_MEMORY_ALLOCATION
}

// rocprofiler has one operation for pools and regions.
type rocprofOperation struct {
	number int64
	name   string
}

var operations = [OperationCount]rocprofOperation{
	Pool:        {1, "MEMORY_ALLOCATION_ALLOCATE"},
	Region:      {1, "MEMORY_ALLOCATION_ALLOCATE"},
	Virtual:     {2, "MEMORY_ALLOCATION_VMEM_ALLOCATE"},
	PoolFree:    {3, "MEMORY_ALLOCATION_FREE"},
	RegionFree:  {3, "MEMORY_ALLOCATION_FREE"},
	VirtualFree: {4, "MEMORY_ALLOCATION_VMEM_FREE"},
}

// caller is a thread in one session: it makes one call at a time.
type caller struct {
	session *traceread.Session
	tid     int64
}

func (c caller) track(number int64) *kind.Track {
	name := fmt.Sprintf("memory operations of thread %d", c.tid)
	if c.tid == 0 {
		name = "memory operations of unknown threads"
	}
	return &kind.Track{
		Kind: "allocations", Number: number, Session: c.session, Name: name,
		About: "calls that allocate or release memory", Rank: 5,
	}
}

func events(ctx context.Context, tr *traceread.Trace, visit func(*kind.Event) error) (leftOut int64, err error) {
	tracks := map[caller]*kind.Track{}
	var e kind.Event
	err = tr.Each(ctx, func(r traceread.Row) error {
		var c call
		known, err := c.scan(tr, r)
		if err != nil {
			return err
		}
		if !known {
			leftOut++
			return nil
		}
		by := caller{c.session, c.tid}
		track := tracks[by]
		if track == nil {
			if len(tracks) >= traceread.MostDefinitions {
				return fmt.Errorf("over %d threads: %w", len(tracks), traceread.ErrImpossible)
			}
			track = by.track(int64(len(tracks)))
			tracks[by] = track
		}
		c.fill(&e, track)
		return visit(&e)
	}, columns+" ORDER BY a.start_ns, a.id")
	return leftOut, err
}

// memoryName names the memory of an allocation as rocprofv3 names agents; releases have none.
func (c *call) memoryName() string {
	if c.operation.isRelease() {
		return ""
	}
	return c.owner().String()
}

// fill fills in the event of a call.
func (c *call) fill(e *kind.Event, track *kind.Track) {
	o := operations[c.operation]
	e.Track, e.ID, e.TID, e.StartNS, e.EndNS = track, c.id, c.tid, c.startNS, c.startNS+c.durationNS
	e.Name, e.Category, e.Operation = o.name, "memory_allocation", o.number
	e.Args = append(e.Args[:0], kind.Arg{Name: "address", Value: c.address.Int64})
	if c.bytes.Valid {
		e.Args = append(e.Args, kind.Arg{Name: "allocation_size", Value: c.bytes.Int64})
	}
	var agent int64 // a trace has one host, 0, for all processors
	if c.agent != nil {
		agent = c.agent.ID
		e.Args = append(e.Args, kind.Arg{Name: "gpu", Value: c.agent.GPU})
	}
	if c.status != 0 {
		e.Args = append(e.Args, kind.Arg{Name: "status", Value: c.status})
	}
	e.Fields = append(e.Fields[:0],
		kind.Field{Name: "agent_id", Value: agent, Handle: true},
		kind.Field{Name: "address", Value: c.address.Int64, Handle: true},
		kind.Field{Name: "allocation_size", Value: c.bytes.Int64})
	e.Row = append(e.Row[:0], "MEMORY_ALLOCATION", o.name, c.memoryName(), c.bytes.Int64, fmt.Sprintf("%#x", uint64(c.address.Int64)),
		c.id, e.StartNS, e.EndNS, c.tid, c.session.Process.ID.PID, c.session.ID, c.status)
}
