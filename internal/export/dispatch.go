package export

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// dispatch is a kernel that ran: 0 ≤ start ≤ end ≤ traceread.LatestNS.
type dispatch struct {
	id             int64
	packetIndex    int64
	startNS, endNS int64
	submitNS       int64 // if it is known
	submitKnown    bool
	call           int64 // correlation id of the call of HIP that submitted it; 0: none is known
	stream         int64 // number of its HIP stream; 0: not known
	linked         bool  // the trace has calls of HIP
	*dispatchContext
}

// Orders of dispatches.
const (
	asRecorded = ""
	byStart    = " ORDER BY start_ns, id"
	bySubmit   = " ORDER BY start_ns - queued_ns, id"
)

// row is a dispatch in the file.
type row struct {
	id, contextID, packetIndex, startNS, durationNS int64
	queuedNS, call                                  sql.NullInt64
	stream                                          any // calls.ParseStream
}

// selectRows selects at most MostRows rows. The OFFSET keeps SQLite from moving the limit
// outwards: it would then keep the rows in a B-tree instead of sorting them, which takes ten
// times as long if the rows are not in order.
const selectRows = `SELECT id, context_id, packet_index, start_ns, duration_ns, queued_ns, NULL AS call_id, NULL AS stream
	FROM (SELECT * FROM rtl_execution LIMIT ? OFFSET 0) e`

// selectLinkedRows also selects the calls and their streams.
var selectLinkedRows = "SELECT *, " + calls.StreamSQL("k.call_id") + " FROM (" + strings.Replace(selectRows, "NULL AS call_id, NULL AS stream",
	calls.SubmitterSQL("(SELECT thread_id FROM rtl_context WHERE id = e.context_id)", "(e.start_ns - e.queued_ns)")+" AS call_id", 1) + " LIMIT -1 OFFSET 0) k"

// rowsOf selects the rows of one session; rowsNotOfOthers also rows without a session.
func rowsOf(s *traceread.Session) string          { return rowsWith("IN", "=", s) }
func rowsNotOfOthers(s *traceread.Session) string { return rowsWith("NOT IN", "<>", s) }

func rowsWith(in, is string, s *traceread.Session) string {
	return fmt.Sprintf(` WHERE context_id %s (SELECT c.id FROM rtl_context c JOIN rtl_queue q ON q.id = c.queue_id
		WHERE q.session_id %s %d)`, in, is, s.ID)
}

const batchRows = 1024

// batch is sent from the reading goroutine to the writing one.
type batch struct {
	rows []row
	err  error // ends the reading
}

// dispatches calls visit for every valid dispatch, and counts the others, once, in leftOut.
// The dispatch is valid until visit returns.
//
// A separate goroutine reads the rows, without the context: with it, the driver would start a
// goroutine for each row. SQLite may sort for a long time before the first row; an interrupt
// does not wait for that.
func (tr *trace) dispatches(ctx context.Context, order string, visit func(*dispatch) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	full, free := make(chan batch), make(chan []row, 2)
	free <- make([]row, 0, batchRows)
	free <- make([]row, 0, batchRows)
	go tr.readRows(ctx, order, full, free)
	tr.leftOut = 0
	n := int64(0)
	for {
		select {
		case <-ctx.Done():
			return traceread.ErrInterrupted
		case b := <-full:
			if b.err != nil {
				return fmt.Errorf("read dispatches: %w", b.err)
			}
			if len(b.rows) == 0 {
				return nil
			}
			if n += int64(len(b.rows)); n >= tr.MostRows {
				return traceread.ErrEndless
			}
			if err := tr.visitRows(b.rows, visit); err != nil {
				return err
			}
			free <- b.rows[:0]
		}
	}
}

// readRows sends batches until an empty one, or one with an error.
func (tr *trace) readRows(ctx context.Context, order string, full chan<- batch, free <-chan []row) {
	send := func(b batch) {
		select {
		case full <- b:
		case <-ctx.Done():
		}
	}
	rows, err := tr.queryRows(order)
	if err != nil {
		send(batch{err: err})
		return
	}
	defer rows.Close()
	for {
		select {
		case into := <-free:
			next, err := readBatch(rows, into)
			send(batch{next, err})
			if err != nil || len(next) == 0 {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// queryRows selects the rows, with their calls if there are links; in the order of submits without.
func (tr *trace) queryRows(order string) (*sql.Rows, error) {
	if tr.linked != nil && order != bySubmit {
		return tr.linked.QueryContext(context.Background(), selectLinkedRows+order, tr.MostRows)
	}
	return tr.DB.Query(selectRows+order, tr.MostRows)
}

func readBatch(rows *sql.Rows, into []row) ([]row, error) {
	for len(into) < batchRows && rows.Next() {
		into = append(into, row{})
		r := &into[len(into)-1]
		if err := rows.Scan(&r.id, &r.contextID, &r.packetIndex, &r.startNS, &r.durationNS, &r.queuedNS, &r.call, &r.stream); err != nil {
			return nil, err
		}
	}
	return into, rows.Err()
}

func (tr *trace) visitRows(rows []row, visit func(*dispatch) error) error {
	d := dispatch{linked: tr.linked != nil}
	for i := range rows {
		c, err := tr.contexts.find(rows[i].contextID)
		if err != nil {
			return err
		}
		if c == nil || !d.set(&rows[i]) {
			tr.leftOut++
			continue
		}
		if !tr.inWindow(d.startNS) {
			continue
		}
		d.dispatchContext = c
		d.stream = tr.streams.number(&d, rows[i].stream)
		if err := visit(&d); err != nil {
			return err
		}
	}
	return nil
}

// set converts a row; false if its times are impossible. It treats an impossible submit time
// as unknown.
func (d *dispatch) set(r *row) bool {
	if !traceread.Possible(r.startNS, r.durationNS) {
		return false
	}
	d.id, d.packetIndex = r.id, r.packetIndex
	d.startNS, d.endNS = r.startNS, r.startNS+r.durationNS
	d.submitNS, d.submitKnown, d.call = r.startNS, false, correlationOf(r.call.Int64)
	if r.queuedNS.Valid {
		if at, known := traceread.Submit(r.startNS, r.queuedNS.Int64); known {
			d.submitNS, d.submitKnown = at, true
		}
	}
	return true
}

// correlationID is rocprofv3's: that of the call of HIP that submitted it, or its own.
func (d *dispatch) correlationID() int64 { return cmp.Or(d.call, d.id) }
