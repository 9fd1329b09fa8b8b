package report

import (
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// row is a dispatch in the file; NULL is tracedb.Null.
type row struct{ contextID, packet, startNS, durationNS, queuedNS int64 }

var rowColumns = []string{"context_id", "packet_index", "start_ns", "duration_ns", "queued_ns"}

// rowSource calls visit for blocks of rows. A block is valid until visit returns.
type rowSource func(tr *traceread.Trace, visit func([]row) error) error

// block is sent from the reading goroutine to the counting one.
type block struct {
	rows []row
	err  error // ends the reading
}

// recordedOrder yields the rows in the order of their ids. Another goroutine reads ahead.
func recordedOrder(tr *traceread.Trace, visit func([]row) error) error {
	blocks, err := tracedb.ReadBlocks(tr.DB, "rtl_execution", rowColumns...)
	if err != nil {
		return err
	}
	full, free, stop := make(chan block), make(chan []row, 3), make(chan struct{})
	ended := make(chan struct{})
	defer func() {
		close(stop)
		<-ended
		_ = blocks.Close() // the file was only read
	}()
	for range cap(free) {
		free <- nil
	}
	go func() {
		defer close(ended)
		readAhead(blocks, full, free, stop)
	}()
	for {
		b := <-full
		if b.err != nil || len(b.rows) == 0 {
			return b.err
		}
		if err := visit(b.rows); err != nil {
			return err
		}
		free <- b.rows
	}
}

// readAhead sends blocks up to an empty one, or one with an error.
func readAhead(blocks *tracedb.Blocks, full chan<- block, free <-chan []row, stop <-chan struct{}) {
	var values []int64
	for more := true; more; {
		var err error
		values, err = blocks.Next(values)
		more = err == nil && len(values) > 0
		b := block{rows: (<-free)[:0], err: err}
		for v := values; len(v) > 0; v = v[blocks.Width():] {
			b.rows = append(b.rows, row{v[1], v[2], v[3], v[4], v[5]})
		}
		select {
		case full <- b:
		case <-stop:
			return
		}
	}
}

const sortedBlock = 1024

// startOrder yields the rows in the order of their starts. SQLite sorts them in temporary
// files.
func startOrder(tr *traceread.Trace, visit func([]row) error) error {
	// Pages that refer to each other in a cycle yield endless rows. The OFFSET keeps SQLite from
	// moving the LIMIT outwards: it would then keep the rows in a B-tree instead of sorting them.
	rows, err := tr.DB.Query(`SELECT context_id, packet_index, start_ns, duration_ns, coalesce(queued_ns, ?)
		FROM (SELECT * FROM rtl_execution LIMIT ? OFFSET 0) ORDER BY start_ns, id`, tracedb.Null, tr.MostRows)
	if err != nil {
		return err
	}
	defer rows.Close()
	all := make([]row, 0, sortedBlock)
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.contextID, &r.packet, &r.startNS, &r.durationNS, &r.queuedNS); err != nil {
			return fmt.Errorf("%w: %w", traceread.ErrImpossible, err)
		}
		if all = append(all, r); len(all) == cap(all) {
			if err := visit(all); err != nil {
				return err
			}
			all = all[:0]
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return visit(all)
}
