package copies

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

//go:embed rpd.sql
var rpdSQL string

var export = kind.Export{
	Events: events,
	CSV: &kind.CSV{
		Format: "csv-copies", Suffix: "_memory_copy_trace.csv", For: "the copies, with rocprofv3's columns",
		Header: []string{ // rocprofv3's names, and four more
			"Kind", "Direction", "Source_Agent_Id", "Destination_Agent_Id", "Correlation_Id", "Start_Timestamp", "End_Timestamp",
			"Bytes", "Thread_Id", "Process_Id", "Session_Id",
		},
	},
	Submits: `SELECT id, thread_id AS thread, submit_ns AS at, start_ns AS start FROM rtl_copy
		WHERE reason_id = 0 AND start_ns IS NOT NULL AND duration_ns IS NOT NULL`,
	Array:      "memory_copy",
	BufferKind: 10, // ROCPROFILER_BUFFER_TRACING_MEMORY_COPY
	RPD: &kind.RPD{
		SQL:     rpdSQL,
		Rows:    "SELECT count(*) FROM rtl_copy WHERE reason_id = 0 AND start_ns IS NOT NULL AND duration_ns IS NOT NULL",
		Written: "SELECT count(*) FROM made.rocpd_op WHERE opType_id IN (SELECT id FROM made.rocpd_string WHERE string GLOB 'Copy*To*')",
	},
}

// operations are rocprofiler's names, by Direction; rocprofiler's numbers begin at 1.
var operations = [...]string{
	"MEMORY_COPY_HOST_TO_HOST", "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST", "MEMORY_COPY_DEVICE_TO_DEVICE",
}

// path is the source and the destination of copies of one session.
type path struct {
	session   *traceread.Session
	from, to  *traceread.Agent // nil: the host's
	direction int64
}

func memoryName(a *traceread.Agent) string {
	if a == nil {
		return "host"
	}
	return fmt.Sprintf("GPU %d", a.GPU)
}

// agentID returns the file's number of an agent; a trace has one host, 0, for all processors.
func agentID(a *traceread.Agent) int64 {
	if a == nil {
		return 0
	}
	return a.ID
}

// track returns the track of a path's copies, below their destination or source GPU.
func (p path) track(number int64) *kind.Track {
	return &kind.Track{
		Kind: "copies", Number: number, Session: p.session, GPU: cmp.Or(p.to, p.from),
		Name:  "copies " + memoryName(p.from) + " → " + memoryName(p.to),
		About: "copies by the runtime; those by kernels are kernels", Rank: 4,
	}
}

// row is a copy with times in the file.
type row struct {
	id, session, tid    int64
	from, to            sql.NullInt64
	direction, bytes    int64
	startNS, durationNS int64
}

// path returns the path of a row; known is false for a row that no recorder writes.
func (c *row) path(tr *traceread.Trace) (p path, known bool) {
	p = path{session: tr.Session(c.session), from: tr.Agents[c.from.Int64], to: tr.Agents[c.to.Int64], direction: c.direction}
	known = p.session != nil && c.from.Valid == (p.from != nil) && c.to.Valid == (p.to != nil) &&
		c.direction >= 0 && c.direction < int64(len(operations)) && c.bytes >= 0 && traceread.Possible(c.startNS, c.durationNS)
	return p, known
}

func events(ctx context.Context, tr *traceread.Trace, visit func(*kind.Event) error) (leftOut int64, err error) {
	tracks := map[path]*kind.Track{}
	var e kind.Event
	err = tr.Each(ctx, func(r traceread.Row) error {
		var c row
		err := r.Scan(&c.id, &c.session, &c.tid, &c.from, &c.to, &c.direction, &c.bytes, &c.startNS, &c.durationNS)
		if err != nil {
			return err
		}
		p, known := c.path(tr)
		if !known {
			leftOut++
			return nil
		}
		track := tracks[p]
		if track == nil {
			track = p.track(int64(len(tracks)))
			tracks[p] = track
		}
		c.fill(&e, p, track)
		return visit(&e)
	}, `SELECT c.id, c.session_id, coalesce(t.tid, 0), from_agent_id, to_agent_id, direction, bytes, start_ns, duration_ns
		FROM rtl_copy c LEFT JOIN rtl_thread t ON t.id = c.thread_id
		WHERE reason_id = 0 AND start_ns IS NOT NULL AND duration_ns IS NOT NULL ORDER BY start_ns, c.id`)
	return leftOut, err
}

// fill fills in the event of a copy.
func (c *row) fill(e *kind.Event, p path, track *kind.Track) {
	e.Track, e.ID, e.TID, e.StartNS, e.EndNS = track, c.id, c.tid, c.startNS, c.startNS+c.durationNS
	e.Name, e.Category, e.Operation = operations[p.direction], "memory_copy", p.direction+1
	e.Args = append(e.Args[:0], kind.Arg{Name: "copy_bytes", Value: c.bytes})
	if p.from != nil {
		e.Args = append(e.Args, kind.Arg{Name: "src_agent", Value: p.from.GPU})
	}
	if p.to != nil {
		e.Args = append(e.Args, kind.Arg{Name: "dst_agent", Value: p.to.GPU})
	}
	e.Fields = append(e.Fields[:0],
		kind.Field{Name: "dst_agent_id", Value: agentID(p.to), Handle: true},
		kind.Field{Name: "src_agent_id", Value: agentID(p.from), Handle: true},
		kind.Field{Name: "bytes", Value: c.bytes})
	e.Row = append(e.Row[:0], "MEMORY_COPY", e.Name, memoryName(p.from), memoryName(p.to), c.id, e.StartNS, e.EndNS,
		c.bytes, c.tid, p.session.Process.ID.PID, p.session.ID)
}
