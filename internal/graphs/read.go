package graphs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// callColumns and kernelColumns are what a step needs of a row, after its id.
var (
	callColumns = []string{
		"session_id", "coalesce(thread_id, 0)", "function_id", "start_ns", "duration_ns", "result",
		"rtl_word(arguments, 0)", "rtl_word(arguments, (SELECT stream_word FROM rtl_function f WHERE f.id = function_id))",
	}
	kernelColumns = []string{"context_id", "start_ns", "duration_ns", "queued_ns"}
)

// Streams reports whether a trace has the streams of calls: an older one has not.
func Streams(tr *traceread.Trace) (bool, error) {
	return tracedb.HasColumn(tr.DB, "rtl_function", "stream_word")
}

// open opens the sources of steps.
func open(ctx context.Context, tr *traceread.Trace, calls bool) (sources []*source, err error) {
	if calls {
		functions, err := functionsOf(ctx, tr)
		if err != nil {
			return nil, err
		}
		blocks, err := tracedb.ReadBlocks(tr.DB, "rtl_call", callColumns...)
		if err != nil {
			return nil, err
		}
		sources = append(sources, &source{blocks: blocks, step: functions.step})
	}
	c, err := newContexts(tr)
	if err == nil {
		var blocks *tracedb.Blocks
		if blocks, err = tracedb.ReadBlocks(tr.DB, "rtl_execution", kernelColumns...); err == nil {
			return append(sources, &source{blocks: blocks, step: c.step, release: c.query.Close}), nil
		}
	}
	for _, s := range sources {
		s.close()
	}
	return nil, err
}

// functions has the stream of which a handle of 0 is the name, by the rows of HIP's functions; Null: none.
type functions map[int64]int64

func functionsOf(ctx context.Context, tr *traceread.Trace) (functions, error) {
	all := functions{}
	err := tr.Define(ctx, func(r traceread.Row) error {
		var row, stream int64
		err := r.Scan(&row, &stream)
		all[row] = stream
		return err
	}, `SELECT id, coalesce(default_stream, ?) FROM rtl_function
		WHERE api_id = (SELECT id FROM rocpd_string WHERE string = 'hip-runtime-api')`, int64(tracedb.Null))
	return all, err
}

// legacyStream is hipStreamLegacy, another name of the default stream.
const legacyStream = 1

func (f functions) step(v []int64) (session, id int64, s Step, valid bool, err error) {
	stream, known := f[v[3]]
	if !known || v[2] == 0 || !traceread.Possible(v[4], v[5]) {
		return 0, 0, s, false, nil
	}
	if stream != tracedb.Null && v[8] != tracedb.Null && v[8] != 0 && v[8] != legacyStream {
		stream = v[8]
	}
	return v[1], v[2], Step{AtNS: v[4], DurationNS: v[5], IsCall: true, Function: v[3], Failed: v[6] != 0, Word: v[7], Stream: stream}, true, nil
}

// contexts finds what the dispatches of a context share.
type contexts struct {
	known map[int64]shared
	query *sql.Stmt
}

type shared struct{ session, thread, launch, name int64 }

// mostContexts limits the contexts in memory. At the limit all are dropped, and read again when needed.
const mostContexts = 1 << 16

func newContexts(tr *traceread.Trace) (*contexts, error) {
	query, err := tr.DB.Prepare(`SELECT l.session_id, coalesce(x.thread_id, 0), l.id, l.name_id FROM rtl_context x
		JOIN rtl_launch l ON l.id = x.launch_id WHERE x.id = ?`)
	return &contexts{known: map[int64]shared{}, query: query}, err
}

// find returns a context; thread 0: the file does not have it, or its thread is not known.
func (c *contexts) find(id int64) (s shared, err error) {
	s, known := c.known[id]
	if known {
		return s, nil
	}
	err = c.query.QueryRow(id).Scan(&s.session, &s.thread, &s.launch, &s.name)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return s, fmt.Errorf("%w: %w", traceread.ErrImpossible, err)
	}
	if len(c.known) >= mostContexts {
		clear(c.known)
	}
	c.known[id] = s
	return s, nil
}

func (c *contexts) step(v []int64) (session, id int64, s Step, valid bool, err error) {
	if v[4] == tracedb.Null || !traceread.Possible(v[2], v[3]) {
		return 0, 0, s, false, nil
	}
	at, known := traceread.Submit(v[2], v[4])
	if !known {
		return 0, 0, s, false, nil
	}
	x, err := c.find(v[1])
	if err != nil || x.thread == 0 {
		return 0, 0, s, false, err
	}
	return x.session, x.thread, Step{AtNS: at, StartNS: v[2], DurationNS: v[3], Launch: x.launch, Name: x.name}, true, nil
}

// sorted is how many steps inFiles passes on at a time, at most.
const sorted = 1024

// inFiles has SQLite sort the steps in temporary files.
func inFiles(ctx context.Context, tr *traceread.Trace, calls bool, visit Visitor) error {
	o := &order{visit: visit, threads: map[int64]*thread{}}
	functions := functions{}
	// Pages that refer to each other in a cycle yield endless rows. The OFFSET keeps SQLite from
	// moving the LIMIT outwards.
	query := `SELECT x.thread_id AS thread, e.start_ns - e.queued_ns AS at, 1 AS kernel, 0 AS id,
			e.context_id AS a, e.start_ns AS b, e.duration_ns AS c, e.queued_ns AS d, 0 AS e, 0 AS f, 0 AS g, 0 AS h
		FROM (SELECT * FROM rtl_execution LIMIT $most OFFSET 0) e JOIN rtl_context x ON x.id = e.context_id
		WHERE e.queued_ns IS NOT NULL AND x.thread_id IS NOT NULL`
	if calls {
		var err error
		if functions, err = functionsOf(ctx, tr); err != nil {
			return err
		}
		query += ` UNION ALL SELECT thread_id, start_ns, 0, 0, ` + strings.Join(callColumns, ", ") +
			` FROM (SELECT * FROM rtl_call LIMIT $most OFFSET 0) WHERE thread_id IS NOT NULL`
	}
	c, err := newContexts(tr)
	if err != nil {
		return err
	}
	defer c.query.Close()
	last, v := int64(0), make([]int64, 9)
	err = tr.Each(ctx, func(r traceread.Row) error {
		var id int64
		var isKernel bool
		var values [8]sql.NullInt64
		err := r.Scan(&id, &isKernel, &values[0], &values[1], &values[2], &values[3], &values[4], &values[5], &values[6], &values[7])
		if err != nil {
			return err
		}
		for i, one := range values {
			if v[i+1] = one.Int64; !one.Valid {
				v[i+1] = tracedb.Null
			}
		}
		if id != last || o.pending >= sorted {
			if err := o.pass(0); err != nil {
				return err
			}
			if id != last {
				clear(o.threads)
			}
			last = id
		}
		step := functions.step
		if isKernel {
			step = c.step
		}
		session, _, s, valid, err := step(v)
		if err != nil || !valid {
			return err
		}
		return o.add(session, id, &s)
	}, `SELECT thread, kernel, a, b, c, d, e, f, g, h FROM (`+strings.ReplaceAll(query, "$most", fmt.Sprint(tr.MostRows))+`) ORDER BY thread, at, kernel`)
	if err != nil {
		return err
	}
	return o.pass(0)
}
