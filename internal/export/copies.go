package export

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// A route is where copies of one session go: from memory to memory.
type route struct {
	session   *session
	from, to  *agent // nil: the host's
	direction int64
}

// operations are rocprofiler's names, by ring.Direction; theirs count from 1.
var operations = [...]string{
	"MEMORY_COPY_HOST_TO_HOST", "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST", "MEMORY_COPY_DEVICE_TO_DEVICE",
}

func memoryName(a *agent) string {
	if a == nil {
		return "host"
	}
	return fmt.Sprintf("GPU %d", a.gpu)
}

func (r route) name() string { return "copies " + memoryName(r.from) + " → " + memoryName(r.to) }

func (r route) operation() string { return operations[r.direction] }

// A copied is a memory copy with times within 0 ≤ start ≤ end ≤ latest.
type copied struct {
	route
	id, bytes      int64
	startNS, endNS int64
	thread         *thread // nil: not known
}

// tid is the calling thread; 0: not known.
func (c *copied) tid() int64 {
	if c.thread == nil {
		return 0
	}
	return c.thread.tid
}

func (tr *trace) readCopyAccounts(ctx context.Context) error {
	if has, err := tracedb.HasCopies(tr.db); err != nil || !has {
		return interrupted(ctx, err)
	}
	return tr.each(ctx, func(r *sql.Rows) error {
		var of, begun, timed int64
		err := r.Scan(&of, &begun, &timed)
		if s := tr.byID[of]; s != nil {
			s.coverage.Copies, s.coverage.CopiesTimed = begun, timed
		}
		return err
	}, "SELECT session_id, begun, timed FROM rtl_copy_coverage")
}

// eachCopy calls visit for every copy that can be shown, in the order of starts;
// others are counted in copiesLeftOut.
func (tr *trace) eachCopy(ctx context.Context, visit func(*copied) error) error {
	tr.copiesLeftOut = 0
	if has, err := tracedb.HasCopies(tr.db); err != nil || !has {
		return err
	}
	return tr.each(ctx, func(r *sql.Rows) error {
		var c copied
		var of, by, duration int64
		var from, to sql.NullInt64
		if err := r.Scan(&c.id, &of, &by, &from, &to, &c.direction, &c.bytes, &c.startNS, &duration); err != nil {
			return err
		}
		c.session, c.thread, c.from, c.to = tr.byID[of], tr.threads[by], tr.agents[from.Int64], tr.agents[to.Int64]
		if c.session == nil || from.Valid && c.from == nil || to.Valid && c.to == nil ||
			c.direction < 0 || c.direction >= int64(len(operations)) || c.bytes < 0 ||
			c.startNS < 0 || c.startNS > latest || duration < 0 || duration > latest-c.startNS {
			tr.copiesLeftOut++
			return nil
		}
		c.endNS = c.startNS + duration
		return visit(&c)
	}, `SELECT id, session_id, coalesce(thread_id, 0), from_agent_id, to_agent_id, direction, bytes, start_ns, duration_ns
		FROM rtl_copy WHERE reason_id = 0 AND start_ns IS NOT NULL AND duration_ns IS NOT NULL ORDER BY start_ns, id`)
}

// copies writes a slice for each, in lanes of its route.
func (c *chrome) copies() error {
	places := newLanes[route]()
	numbers := map[route]int64{}
	return c.trace.eachCopy(c.ctx, func(one *copied) error {
		c.result.Copies++
		lane, err := places.place(one.route, one.startNS, one.endNS)
		if err != nil {
			return err
		}
		number, known := numbers[one.route]
		if !known {
			number = int64(len(numbers))
			numbers[one.route] = number
		}
		pid, tid, err := c.row(one.session, "copies", number, lane, one.name())
		if err != nil {
			return err
		}
		l := c.event("X", pid, tid, one.startNS).micros("dur", one.endNS-one.startNS).text("cat", "memory_copy").text("name", one.operation())
		l = append(l.key("args"), '{').int("copy_bytes", one.bytes)
		if one.from != nil {
			l = l.int("src_agent", one.from.gpu)
		}
		if one.to != nil {
			l = l.int("dst_agent", one.to.gpu)
		}
		return c.write(append(l, '}'))
	})
}

func (p *perfetto) copies() error {
	places := newLanes[route]()
	return p.trace.eachCopy(p.ctx, func(one *copied) error {
		p.result.Copies++
		p.packets.names.makeRoom()
		lane, err := places.place(one.route, one.startNS, one.endNS)
		if err != nil {
			return err
		}
		track, err := p.tracks.ofRoute(one.route, lane)
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
func (r *rocprof) memoryCopies(s *session) error {
	r.comma = false
	return r.trace.eachCopy(r.ctx, func(c *copied) error {
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

func agentID(a *agent) int64 {
	if a == nil {
		return hostAgent
	}
	return a.id
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
	return e.trace.eachCopy(e.ctx, func(c *copied) error {
		e.result.Copies++
		line = append(append(append(line[:0], `"MEMORY_COPY","`...), c.operation()...), '"')
		line = append(appendCSV(append(line, ','), memoryName(c.from)), ',')
		line = appendCSV(line, memoryName(c.to))
		for _, v := range []int64{c.id, c.startNS, c.endNS, c.bytes, c.tid(), c.session.pid, c.session.id} {
			line = strconv.AppendInt(append(line, ','), v, 10)
		}
		_, err := e.w.Write(append(line, '\n'))
		return err
	})
}
