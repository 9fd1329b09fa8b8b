package export

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/all"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// linkCalls makes links between calls of HIP and what they submitted: afterwards dispatches know
// their calls and streams. A trace without such calls, or of an early format, has none, and costs nothing.
func (tr *trace) linkCalls(ctx context.Context) error {
	is, err := calls.HIPRuntime.IsIn(tr.Trace)
	if err == nil && is {
		is, err = tracedb.HasColumn(tr.DB, "rtl_function", "stream_word")
	}
	if err != nil || !is {
		return err
	}
	conn, err := tr.DB.Conn(ctx)
	if err != nil {
		return traceread.Interrupted(ctx, err)
	}
	if is, err = tr.makeSpans(ctx, conn); err != nil || !is {
		_ = conn.Close()
		return err
	}
	tr.linked = conn
	return nil
}

// makeSpans makes the table of calls on a connection, and reports whether it has any.
func (tr *trace) makeSpans(ctx context.Context, conn *sql.Conn) (has bool, err error) {
	if _, err = conn.ExecContext(ctx, calls.SpansSQL(tr.MostRows)); err == nil {
		err = conn.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM temp.call_span)").Scan(&has)
	}
	if err != nil {
		return false, fmt.Errorf("read calls: %w", traceread.Interrupted(ctx, err))
	}
	return has, nil
}

// closeLinks releases the connection of the links. It does not wait for a query of an interrupted export.
func (tr *trace) closeLinks() {
	if tr.linked != nil {
		go tr.linked.Close()
	}
}

// link says that a call submitted an item at a time.
type link struct {
	item                    item
	call, callStartNS, atNS int64
}

// item is what a call can submit.
type item struct {
	kind int // index of all.Kinds, from 1; 0: a kernel
	id   int64
}

// flow returns the number of the arrow from the call to the item, for readers with 64 bits.
func (i item) flow() uint64 { return uint64(i.kind)<<56 ^ uint64(i.id) }

// links reads links in the order of a query. A separate goroutine reads them, so that memory does
// not grow with the trace; it ends when the context does. nil: the trace has none.
type links struct {
	ctx     context.Context
	batches <-chan linkBatch
	current []link
}

type linkBatch struct {
	links []link
	err   error
}

// callLinks returns what calls submitted, in the order of the calls' events.
func (tr *trace) callLinks(ctx context.Context) (*links, error) {
	each := []string{"SELECT 0 AS kind, * FROM (" + submittedSQL(kernelsSQL, tr.MostRows) + ")"}
	for i, k := range all.Kinds {
		if is, err := k.IsIn(tr.Trace); err != nil {
			return nil, err
		} else if is && k.Export.Submits != "" {
			each = append(each, fmt.Sprintf("SELECT %d, * FROM (%s)", i+1, submittedSQL(k.Export.Submits, tr.MostRows)))
		}
	}
	return tr.readLinks(ctx, fmt.Sprintf(`SELECT s.kind, s.id, c.id, c.start_ns, s.at FROM (%s) s
		CROSS JOIN rtl_call c ON c.id = s.call_id ORDER BY c.start_ns, c.id, s.kind, s.id`, strings.Join(each, " UNION ALL "))), nil
}

// itemLinks returns the events of a kind that calls can have submitted, in their order; call 0: none has.
func (tr *trace) itemLinks(ctx context.Context, k *kind.Kind) *links {
	if k.Export.Submits == "" {
		return nil
	}
	return tr.readLinks(ctx, fmt.Sprintf("SELECT 0, id, coalesce(call_id, 0), 0, 0 FROM (%s) ORDER BY start, id",
		submittedSQL(k.Export.Submits, tr.MostRows)))
}

// kernelsSQL selects the kernels as kind.Export.Submits does.
const kernelsSQL = `SELECT e.id AS id, x.thread_id AS thread, e.start_ns - e.queued_ns AS at, e.start_ns AS start
	FROM rtl_execution e JOIN rtl_context x ON x.id = e.context_id`

// submittedSQL adds to such SQL the rows of the calls, NULL if there is none. The OFFSET keeps SQLite
// from looking for a call more than once.
func submittedSQL(submits string, mostRows int64) string {
	return fmt.Sprintf("SELECT id, at, start, %s AS call_id FROM (%s) LIMIT %d OFFSET 0", calls.SubmitterSQL("thread", "at"), submits, mostRows)
}

func (tr *trace) readLinks(ctx context.Context, query string) *links {
	if tr.linked == nil {
		return nil
	}
	batches := make(chan linkBatch, 2)
	go tr.sendLinks(ctx, query, batches)
	return &links{ctx: ctx, batches: batches}
}

func (tr *trace) sendLinks(ctx context.Context, query string, to chan<- linkBatch) {
	defer close(to)
	send := func(b linkBatch) bool {
		select {
		case to <- b:
			return true
		case <-ctx.Done():
			return false
		}
	}
	rows, err := tr.linked.QueryContext(context.Background(), query+" LIMIT ?", tr.MostRows) // as in dispatches
	if err != nil {
		send(linkBatch{err: err})
		return
	}
	defer rows.Close()
	for {
		b := readLinkBatch(rows)
		if len(b.links) == 0 && b.err == nil || !send(b) || b.err != nil {
			return
		}
	}
}

func readLinkBatch(rows *sql.Rows) (b linkBatch) {
	for len(b.links) < batchRows && rows.Next() {
		var l link
		if b.err = rows.Scan(&l.item.kind, &l.item.id, &l.call, &l.callStartNS, &l.atNS); b.err != nil {
			return b
		}
		b.links = append(b.links, l)
	}
	b.err = rows.Err()
	return b
}

// head returns the next link; nil: there is none.
func (l *links) head() (*link, error) {
	if l == nil {
		return nil, nil
	}
	if len(l.current) == 0 {
		select {
		case b := <-l.batches: // without links: they have ended
			if b.err != nil {
				return nil, fmt.Errorf("read calls: %w", b.err)
			}
			if l.current = b.links; len(b.links) == 0 {
				return nil, nil
			}
		case <-l.ctx.Done():
			return nil, traceread.ErrInterrupted
		}
	}
	return &l.current[0], nil
}

// callOf returns the correlation id of the call that submitted an event; 0: none is known. The
// caller asks for events in the order of the links.
func (l *links) callOf(event int64) (int64, error) {
	for {
		next, err := l.head()
		if err != nil || next == nil {
			return 0, err
		}
		l.current = l.current[1:]
		if next.item.id == event {
			return correlationOf(next.call), nil
		}
	}
}

// ofCall calls visit for each item that a call submitted. The caller asks for calls in the order
// of their events.
func (l *links) ofCall(e *kind.Event, visit func(submitted item, atNS int64) error) error {
	for {
		next, err := l.head()
		if err != nil || next == nil {
			return err
		}
		id := correlationOf(next.call)
		if next.callStartNS > e.StartNS || next.callStartNS == e.StartNS && id > e.ID {
			return nil
		}
		l.current = l.current[1:]
		if id != e.ID {
			continue // its call was left out
		}
		if err := visit(next.item, next.atNS); err != nil {
			return err
		}
	}
}

// correlationOf returns the correlation id of a call; 0 if it is not known.
func correlationOf(call int64) int64 {
	if call == 0 {
		return 0
	}
	return calls.CorrelationID(call)
}
