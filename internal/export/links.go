package export

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// link says that a call of HIP submitted a kernel.
type link struct{ kernel, call int64 }

// links are the links of a trace, in the order of the kernels' ids. A separate goroutine reads them
// while the dispatches are written, so that memory does not grow with the trace.
type links struct {
	batches <-chan linkBatch
	current []link
}

type linkBatch struct {
	links []link
	err   error
}

// links begins to read the trace's links; none are in a trace without calls of HIP. It ends when ctx does.
func (tr *trace) links(ctx context.Context) (*links, error) {
	batches := make(chan linkBatch, 2)
	is, err := calls.HIPRuntime.IsIn(tr.Trace)
	if err != nil {
		return nil, err
	}
	if !is {
		close(batches)
		return &links{batches: batches}, nil
	}
	go tr.readLinks(ctx, batches)
	return &links{batches: batches}, nil
}

func (tr *trace) readLinks(ctx context.Context, to chan<- linkBatch) {
	defer close(to)
	send := func(b linkBatch) bool {
		select {
		case to <- b:
			return true
		case <-ctx.Done():
			return false
		}
	}
	rows, err := tr.DB.Query(`SELECT k.kernel_id, k.call_id FROM call_kernel k JOIN rtl_call c ON c.id = k.call_id
		JOIN rtl_function f ON f.id = c.function_id JOIN rocpd_string a ON a.id = f.api_id
		WHERE a.string = ? ORDER BY k.kernel_id LIMIT ?`, ring.KindHIPRuntimeAPI.String(), tr.MostRows)
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
		if b.err = rows.Scan(&l.kernel, &l.call); b.err != nil {
			return b
		}
		b.links = append(b.links, l)
	}
	b.err = rows.Err()
	return b
}

// callOf returns the correlation id of the call that submitted a kernel; false: none is known. Kernels are asked for in the order
// of their ids.
func (l *links) callOf(ctx context.Context, kernel int64) (call int64, known bool, err error) {
	for {
		for len(l.current) > 0 && l.current[0].kernel < kernel {
			l.current = l.current[1:]
		}
		if len(l.current) > 0 {
			return calls.CorrelationID(l.current[0].call), l.current[0].kernel == kernel, nil
		}
		var b linkBatch
		var more bool
		select {
		case b, more = <-l.batches:
		case <-ctx.Done():
			return 0, false, traceread.ErrInterrupted
		}
		if b.err != nil {
			return 0, false, fmt.Errorf("read calls: %w", b.err)
		}
		if !more {
			return 0, false, nil
		}
		l.current = b.links
	}
}
