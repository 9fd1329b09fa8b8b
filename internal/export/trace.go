package export

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// mostDefinitions bounds the rows of each table that is held as a whole.
// Recorders stay far below it.
const mostDefinitions = 1 << 18

// A session is one recording of one process. Times are CLOCK_BOOTTIME ns; 0: not known.
type session struct {
	id, pid, startTicks           int64
	command, host                 string
	tool                          string
	rank                          *int64 // nil: not known
	begunNS, armedNS, detachedNS  int64
	endedNS                       int64 // 0: the recorder was killed
	monotonicOffset, realtimeDiff int64 // to be added to CLOCK_BOOTTIME, at the start
	coverage                      Coverage
}

// endNS is the end of what can have been recorded, as far as it is known.
func (s *session) endNS() int64 {
	switch {
	case s.detachedNS > 0:
		return s.detachedNS
	case s.endedNS > 0:
		return s.endedNS
	}
	return s.fromNS()
}

// fromNS is when recording began.
func (s *session) fromNS() int64 {
	if s.armedNS > 0 {
		return s.armedNS
	}
	return s.begunNS
}

// process tells processes apart whose pids are the same.
type process struct {
	host            string
	pid, startTicks int64
}

func (s *session) process() process { return process{s.host, s.pid, s.startTicks} }

// title is what people know its process by.
func (s *session) title() string {
	if s.rank != nil {
		return fmt.Sprintf("rank %d %s", *s.rank, s.command)
	}
	return s.command
}

type agent struct {
	id           int64
	session      *session
	gpu          int64 // one number for each device in the file
	node         int64 // the driver's; -1: not known
	name         string
	product      string
	computeUnits int64
}

type queue struct {
	id    int64
	agent *agent
	name  string // for people: the file's number, and the runtime's

	rowName string // with the GPU in front
}

// queueName says the file's number of a queue, and the runtime's unless that is -1, not known.
func queueName(id, hsaID int64) string {
	if hsaID < 0 {
		return fmt.Sprintf("queue %d", id)
	}
	return fmt.Sprintf("queue %d (hwq %#x)", id, hsaID)
}

type thread struct {
	id, tid int64
	session *session
	name    string
}

// A trace is an open file, with what dispatches refer to.
type trace struct {
	db       *sql.DB
	sessions []*session // by id
	agents   map[int64]*agent
	queues   map[int64]*queue
	threads  map[int64]*thread
	byID     map[int64]*session
	contexts *contexts
	leftOut  int64

	copiesLeftOut int64
	together      together

	mostRows int64 // that fit into the file
}

// openTrace opens a trace and reads what it defines.
func openTrace(ctx context.Context, path string) (*trace, error) {
	db, err := tracedb.Open(path)
	if err != nil {
		return nil, err
	}
	tr := &trace{
		db: db, agents: map[int64]*agent{}, queues: map[int64]*queue{}, threads: map[int64]*thread{},
		byID: map[int64]*session{},
	}
	if err := tr.read(ctx); err != nil {
		tr.close()
		return nil, err
	}
	return tr, nil
}

func (tr *trace) close() { _ = tr.db.Close() } // nothing was written

func (tr *trace) read(ctx context.Context) (err error) {
	if tr.mostRows, err = tracedb.MostRows(tr.db); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		read func(context.Context) error
	}{
		{"sessions", tr.readSessions},
		{"GPUs", tr.readAgents},
		{"queues", tr.readQueues},
		{"threads", tr.readThreads},
		{"coverage", tr.readCoverage},
		{"ranks", tr.readRanks},
		{"processes", tr.readTogether},
	} {
		if err := step.read(ctx); err != nil {
			return fmt.Errorf("read %s: %w", step.what, err)
		}
	}
	tr.contexts, err = newContexts(tr)
	return err
}

// interrupted puts ErrInterrupted for whatever a driver says when its context ended.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ErrInterrupted
	}
	return err
}

// errEndless: pages that refer to each other in a ring give rows without an end.
var errEndless = fmt.Errorf("more rows than fit into the file: %w", ErrImpossible)

// each calls scan for every row of a query, which gives at most those of two tables.
func (tr *trace) each(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := tr.db.QueryContext(ctx, query, args...)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer rows.Close()
	for n := int64(0); rows.Next(); n++ {
		if n > tr.mostRows {
			return errEndless
		}
		if err := scan(rows); err != nil {
			return err
		}
	}
	return interrupted(ctx, rows.Err())
}

// define is each for a table that is held as a whole.
func (tr *trace) define(ctx context.Context, scan func(*sql.Rows) error, query string) error {
	n := 0
	return tr.each(ctx, func(r *sql.Rows) error {
		if n++; n > mostDefinitions {
			return fmt.Errorf("over %d rows: %w", mostDefinitions, ErrImpossible)
		}
		return scan(r)
	}, query)
}

func (tr *trace) readSessions(ctx context.Context) error {
	return tr.define(ctx, func(r *sql.Rows) error {
		s := &session{}
		tr.sessions = append(tr.sessions, s)
		err := r.Scan(&s.id, &s.pid, &s.startTicks, &s.command, &s.host, &s.tool, &s.begunNS, &s.armedNS,
			&s.detachedNS, &s.endedNS, &s.monotonicOffset, &s.realtimeDiff)
		s.command, s.host, s.tool = cut(s.command, longestWord), cut(s.host, longestWord), cut(s.tool, longestWord)
		tr.byID[s.id] = s
		return err
	}, `SELECT id, pid, start_ticks, command, host, tool_version, begun_ns, coalesce(armed_ns, 0), coalesce(detached_ns, 0),
		coalesce(ended_ns, 0), coalesce(monotonic_offset_start_ns, 0),
		coalesce(realtime_offset_start_ns, 0) FROM rtl_session ORDER BY id`)
}

func (tr *trace) readAgents(ctx context.Context) error {
	return tr.define(ctx, func(r *sql.Rows) error {
		var a agent
		var of int64
		err := r.Scan(&a.id, &of, &a.gpu, &a.node, &a.name, &a.product, &a.computeUnits)
		a.name, a.product = cut(a.name, longestWord), cut(a.product, longestWord)
		if a.session = tr.byID[of]; a.session != nil {
			tr.agents[a.id] = &a
		}
		return err
	}, `SELECT a.id, a.session_id, a.gpu_id, coalesce(a.driver_node, -1), coalesce(n.string, ''), coalesce(p.string, ''),
		coalesce(a.compute_units, 0) FROM rtl_agent a LEFT JOIN rocpd_string n ON n.id = a.name_id
		LEFT JOIN rocpd_string p ON p.id = a.product_id ORDER BY a.id`)
}

func (tr *trace) readQueues(ctx context.Context) error {
	return tr.define(ctx, func(r *sql.Rows) error {
		var q queue
		var of, hsaID int64
		err := r.Scan(&q.id, &of, &hsaID)
		q.name = queueName(q.id, hsaID)
		if q.agent = tr.agents[of]; q.agent != nil {
			q.rowName = fmt.Sprintf("GPU %d %s", q.agent.gpu, q.name)
			tr.queues[q.id] = &q
		}
		return err
	}, "SELECT id, agent_id, coalesce(hsa_id, -1) FROM rtl_queue ORDER BY id")
}

func (tr *trace) readThreads(ctx context.Context) error {
	return tr.define(ctx, func(r *sql.Rows) error {
		var t thread
		var of int64
		err := r.Scan(&t.id, &of, &t.tid, &t.name)
		t.name = cut(t.name, longestWord)
		if t.session = tr.byID[of]; t.session != nil {
			tr.threads[t.id] = &t
		}
		return err
	}, "SELECT id, session_id, tid, coalesce(name, '') FROM rtl_thread ORDER BY id")
}
