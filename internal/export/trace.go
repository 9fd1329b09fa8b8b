package export

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// thread is a thread of a recorded process that submitted work.
type thread struct {
	id, tid int64
	session *traceread.Session
	name    string // "": not known
}

// title returns the thread's name, harmless, or its number.
func (th *thread) title() string {
	return cmp.Or(sanitize.Text(th.name), fmt.Sprintf("thread %d", th.tid))
}

// trace is an open trace file, the sessions to export, and the number of rows left out so far.
type trace struct {
	*traceread.Trace
	sessions []*traceread.Session // in the order of their ids
	pid      int64                // the only process to export; 0: all
	window   traceread.Span       // only what starts in it is exported
	coverage map[*traceread.Session]*Coverage
	queues   map[int64]*queue
	threads  map[int64]*thread
	contexts *contexts
	linked   *sql.Conn // has the temporary table of calls; nil: no links (linkCalls)
	streams  streams
	leftOut  int64
}

// queue is an HSA queue with its names.
type queue struct {
	*traceread.Queue
	row     int64  // of the timeline: the id of the first queue that is drawn there
	name    string // the file's number of the row, and the runtime's
	rowName string // with the GPU in front
}

// hardwareQueue identifies a queue over the windows of a schedule.
type hardwareQueue struct {
	of         *traceread.Process
	gpu, hsaID int64
}

// rowOf returns the row of a queue: one for each queue of each session; but the windows of a schedule
// have rows in common.
func rowOf(q *traceread.Queue, known map[hardwareQueue]int64) int64 {
	if !q.Agent.Session.Scheduled || q.HSAID < 0 {
		return q.ID
	}
	key := hardwareQueue{q.Agent.Session.Process, q.Agent.GPU, q.HSAID}
	if _, ok := known[key]; !ok {
		known[key] = q.ID
	}
	return known[key]
}

// queueName returns the file's number of a queue, and the runtime's unless it is -1 (not known).
func queueName(id, hsaID int64) string {
	if hsaID < 0 {
		return fmt.Sprintf("queue %d", id)
	}
	return fmt.Sprintf("queue %d (hwq %#x)", id, hsaID)
}

// openTrace opens a trace and reads its definitions.
func openTrace(ctx context.Context, path string) (*trace, error) { return openFiltered(ctx, path, nil) }

// openFiltered is openTrace with only what a filter selects; nil: everything.
func openFiltered(ctx context.Context, path string, f *filter.Filter) (*trace, error) {
	read, err := traceread.OpenFiltered(ctx, path, f)
	if err != nil {
		return nil, err
	}
	tr := &trace{
		Trace: read, sessions: read.Sessions, window: traceread.Always, coverage: map[*traceread.Session]*Coverage{},
		queues: map[int64]*queue{}, threads: map[int64]*thread{}, streams: streams{},
	}
	tr.addCoverage()
	rows := map[hardwareQueue]int64{}
	for _, id := range sortedKeys(read.Queues) {
		q := read.Queues[id]
		row := rowOf(q, rows)
		name := queueName(row, q.HSAID)
		tr.queues[id] = &queue{Queue: q, row: row, name: name, rowName: fmt.Sprintf("GPU %d %s", q.Agent.GPU, name)}
	}
	if err := tr.readThreads(ctx); err != nil {
		read.Close()
		return nil, fmt.Errorf("read threads: %w", traceread.Explain(err))
	}
	if tr.contexts, err = newContexts(tr); err != nil {
		read.Close()
		return nil, err
	}
	return tr, nil
}

func (tr *trace) readThreads(ctx context.Context) error {
	return tr.Define(ctx, func(r traceread.Row) error {
		var t thread
		var of int64
		err := r.Scan(&t.id, &of, &t.tid, &t.name)
		t.name = traceread.Cut(t.name, traceread.LongestWord)
		if t.session = tr.Session(of); t.session != nil {
			tr.threads[t.id] = &t
		}
		return err
	}, "SELECT id, session_id, tid, coalesce(name, '') FROM rtl_thread ORDER BY id")
}

// Close closes the file.
func (tr *trace) Close() {
	tr.Trace.Close()
	tr.closeLinks()
}

// untilNS returns the end of the time that a session can have recorded, if known.
func untilNS(s *traceread.Session) int64 {
	if at := s.UntilNS(); at > 0 {
		return at
	}
	return s.FromNS()
}

// sortedKeys returns the ids of a map in ascending order.
func sortedKeys[V any](table map[int64]V) []int64 {
	return slices.Sorted(maps.Keys(table))
}
