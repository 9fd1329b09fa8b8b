package export

import (
	"context"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// filteredTime is a time in which kernels ran that a filter left out.
type filteredTime struct {
	traceread.Span
	kernels int64
}

func (f filteredTime) String() string { return humanize.Things(f.kernels, "filtered kernel") }

// eachFiltered calls visit for the times of each queue's filtered kernels, by start, without
// what an earlier time of the queue covers.
func (tr *trace) eachFiltered(ctx context.Context, visit func(*queue, filteredTime) error) error {
	if !tr.HasFiltered {
		return nil
	}
	drawn := map[*queue]int64{}
	err := tr.Each(ctx, func(r traceread.Row) error {
		var f filteredTime
		var of, durationNS int64
		if err := r.Scan(&of, &f.BeginNS, &durationNS, &f.kernels); err != nil {
			return err
		}
		q := tr.queues[of]
		if q == nil || f.kernels < 1 || !traceread.Possible(f.BeginNS, durationNS) {
			return nil
		}
		f.EndNS = f.BeginNS + durationNS
		f.BeginNS = max(f.BeginNS, drawn[q])
		if f.EndNS < f.BeginNS {
			return nil
		}
		drawn[q] = f.EndNS
		return visit(q, f)
	}, `SELECT queue_id, start_ns, duration_ns, kernels FROM (SELECT * FROM rtl_filtered LIMIT ? OFFSET 0) ORDER BY start_ns`, tr.MostRows)
	if err != nil {
		return fmt.Errorf("filtered kernels: %w", err)
	}
	return nil
}

// filteredKernels shows when filtered kernels ran.
func (p *perfetto) filteredKernels() error {
	return p.trace.eachFiltered(p.ctx, func(q *queue, f filteredTime) error {
		track, err := p.tracks.ofFiltered(q)
		if err != nil {
			return err
		}
		return p.slice(track, f.BeginNS, f.EndNS, f.String())
	})
}

func (c *chrome) filteredKernels() error {
	return c.trace.eachFiltered(c.ctx, func(q *queue, f filteredTime) error {
		pid, tid, err := c.row(q.Agent.Session, "filtered", q.ID, 0, q.rowName+": filtered kernels", ofGPU(q.Agent.GPU, 0, q.ID))
		if err != nil {
			return err
		}
		return c.slice(pid, tid, f.BeginNS, f.EndNS, f.String())
	})
}
