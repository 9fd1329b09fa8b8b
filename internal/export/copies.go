package export

import (
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

// copies writes a slice for each, in lanes of its path.
func (c *chrome) copies() error {
	places := newLanes[copyPath]()
	numbers := map[copyPath]int64{}
	return c.trace.eachCopy(c.ctx, func(one *copyEvent) error {
		c.result.Copies++
		lane, err := places.place(one.copyPath, one.startNS, one.endNS)
		if err != nil {
			return err
		}
		number, known := numbers[one.copyPath]
		if !known {
			number = int64(len(numbers))
			numbers[one.copyPath] = number
		}
		pid, tid, err := c.row(one.session, "copies", number, lane, one.name())
		if err != nil {
			return err
		}
		l := c.event("X", pid, tid, one.startNS).micros("dur", one.endNS-one.startNS).text("cat", "memory_copy").text("name", one.operation())
		l = append(l.key("args"), '{').int("copy_bytes", one.bytes)
		if one.from != nil {
			l = l.int("src_agent", one.from.GPU)
		}
		if one.to != nil {
			l = l.int("dst_agent", one.to.GPU)
		}
		return c.write(append(l, '}'))
	})
}

func (p *perfetto) copies() error {
	places := newLanes[copyPath]()
	return p.trace.eachCopy(p.ctx, func(one *copyEvent) error {
		p.result.Copies++
		p.packets.names.makeRoom()
		lane, err := places.place(one.copyPath, one.startNS, one.endNS)
		if err != nil {
			return err
		}
		track, err := p.tracks.ofCopyPath(one.copyPath, lane)
		if err != nil {
			return err
		}
		names := &p.packets.names
		event := p.newEvent(typeBegin, track).number(eventNameID, names.fixedName(internedEventNames, one.operation()))
		event = names.annotateInt(event.text(eventCategory, "memory_copy"), "copy_bytes", one.bytes)
		p.packets.event = event
		if err := p.packets.write(one.startNS, packetTrackEvent, event); err != nil {
			return err
		}
		return p.packets.write(one.endNS, packetTrackEvent, p.newEvent(typeEnd, track))
	})
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
