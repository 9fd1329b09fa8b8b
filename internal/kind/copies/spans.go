package copies

import (
	"context"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// EachSpan calls visit for the time of each copy on each GPU whose memory it reads or
// writes, in the order of starts, until visit returns false.
func EachSpan(ctx context.Context, tr *traceread.Trace, visit func(gpu int64, s traceread.Span) bool) error {
	if has, err := Kind.IsIn(tr); err != nil || !has {
		return err
	}
	done := false
	return tr.Each(ctx, func(r traceread.Row) error {
		var gpu int64
		var s traceread.Span
		err := r.Scan(&gpu, &s.BeginNS, &s.EndNS)
		done = done || err == nil && !visit(gpu, s)
		return err
	}, `SELECT a.gpu_id, c.start_ns, c.start_ns + c.duration_ns
		FROM rtl_copy c JOIN rtl_agent a ON a.id IN (c.from_agent_id, c.to_agent_id)
		WHERE c.start_ns >= 0 AND c.duration_ns > 0 AND c.start_ns + c.duration_ns <= ? ORDER BY c.start_ns`, int64(traceread.LatestNS))
}
