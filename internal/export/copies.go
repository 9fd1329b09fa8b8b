package export

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// A copyPath is where copies of one session go: from memory to memory.
type copyPath struct {
	session   *traceread.Session
	from, to  *traceread.Agent // nil: the host's
	direction int64
}

// operations are rocprofiler's names, by ring.Direction; theirs count from 1.
var operations = [...]string{
	"MEMORY_COPY_HOST_TO_HOST", "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST", "MEMORY_COPY_DEVICE_TO_DEVICE",
}

func memoryName(a *traceread.Agent) string {
	if a == nil {
		return "host"
	}
	return fmt.Sprintf("GPU %d", a.GPU)
}

func (p copyPath) name() string { return "copies " + memoryName(p.from) + " → " + memoryName(p.to) }

func (p copyPath) operation() string { return operations[p.direction] }

// A copyEvent is a memory copy with times within 0 ≤ start ≤ end ≤ traceread.LatestNS.
type copyEvent struct {
	copyPath
	id, bytes      int64
	startNS, endNS int64
	thread         *thread // nil: not known
}

// tid is the calling thread; 0: not known.
func (c *copyEvent) tid() int64 {
	if c.thread == nil {
		return 0
	}
	return c.thread.tid
}

// eachCopy calls visit for every copy that can be shown, in the order of starts;
// others are counted in copiesLeftOut.
func (tr *trace) eachCopy(ctx context.Context, visit func(*copyEvent) error) error {
	tr.copiesLeftOut = 0
	if !tr.HasCopies {
		return nil
	}
	return tr.Each(ctx, func(r traceread.Row) error {
		var c copyEvent
		var of, by, duration int64
		var from, to sql.NullInt64
		if err := r.Scan(&c.id, &of, &by, &from, &to, &c.direction, &c.bytes, &c.startNS, &duration); err != nil {
			return err
		}
		c.session, c.thread, c.from, c.to = tr.Session(of), tr.threads[by], tr.Agents[from.Int64], tr.Agents[to.Int64]
		if c.session == nil || from.Valid && c.from == nil || to.Valid && c.to == nil ||
			c.direction < 0 || c.direction >= int64(len(operations)) || c.bytes < 0 || !traceread.Possible(c.startNS, duration) {
			tr.copiesLeftOut++
			return nil
		}
		c.endNS = c.startNS + duration
		return visit(&c)
	}, `SELECT id, session_id, coalesce(thread_id, 0), from_agent_id, to_agent_id, direction, bytes, start_ns, duration_ns
		FROM rtl_copy WHERE reason_id = 0 AND start_ns IS NOT NULL AND duration_ns IS NOT NULL ORDER BY start_ns, id`)
}

// copyEvents is the source of copies: a track for each path.
func copyEvents(e *export, visit func(*Event) error) error {
	tracks := map[copyPath]*Track{}
	var event Event
	return e.trace.eachCopy(e.ctx, func(c *copyEvent) error {
		e.result.Copies++
		track, known := tracks[c.copyPath]
		if !known {
			track = c.copyPath.track(int64(len(tracks)))
			tracks[c.copyPath] = track
		}
		event = Event{
			Track: track, StartNS: c.startNS, EndNS: c.endNS, Name: c.operation(), Category: "memory_copy",
			Args: append(event.Args[:0], Arg{"copy_bytes", c.bytes}),
		}
		if c.from != nil {
			event.Args = append(event.Args, Arg{"src_agent", c.from.GPU})
		}
		if c.to != nil {
			event.Args = append(event.Args, Arg{"dst_agent", c.to.GPU})
		}
		return visit(&event)
	})
}

// track describes where the copies of a path are drawn: below the GPU that they go to or
// come from.
func (p copyPath) track(number int64) *Track {
	return &Track{
		Kind: "copies", Number: number, Session: p.session, GPU: cmp.Or(p.to, p.from), Name: p.name(),
		About: "copies by the runtime; those by kernels are kernels", Rank: 4,
	}
}

// memoryCopies writes the copies of one session.
func (r *rocprof) memoryCopies(s *traceread.Session) error {
	r.comma = false
	return r.trace.eachCopy(r.ctx, func(c *copyEvent) error {
		if c.session != s {
			return nil
		}
		r.result.Copies++
		l := append(r.line[:0], '{').int("kind", kindMemoryCopy).int("operation", c.direction+1).int("thread_id", c.tid())
		l = append(append(l.key("correlation_id"), '{').int("internal", c.id).int("external", 0), '}')
		l = l.int("start_timestamp", c.startNS).int("end_timestamp", c.endNS).
			handle("dst_agent_id", agentID(c.to)).handle("src_agent_id", agentID(c.from)).int("bytes", c.bytes)
		r.line = append(l, '}')
		return r.element()
	})
}

func agentID(a *traceread.Agent) int64 {
	if a == nil {
		return hostAgent
	}
	return a.ID
}

// copyCSVHeader has rocprofv3's names of columns; the last four are ours.
const copyCSVHeader = `"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp",` +
	`"Bytes","Thread_Id","Process_Id","Session_Id"` + "\n"

// writeCopyCSV writes a line for each copy, in the order of starts.
func writeCopyCSV(e *export) error {
	if _, err := e.w.WriteString(copyCSVHeader); err != nil {
		return err
	}
	var line []byte
	return e.trace.eachCopy(e.ctx, func(c *copyEvent) error {
		e.result.Copies++
		line = append(append(append(line[:0], `"MEMORY_COPY","`...), c.operation()...), '"')
		line = append(appendCSV(append(line, ','), memoryName(c.from)), ',')
		line = appendCSV(line, memoryName(c.to))
		for _, v := range []int64{c.id, c.startNS, c.endNS, c.bytes, c.tid(), c.session.Process.ID.PID, c.session.ID} {
			line = strconv.AppendInt(append(line, ','), v, 10)
		}
		_, err := e.w.Write(append(line, '\n'))
		return err
	})
}
