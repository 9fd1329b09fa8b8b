package steps

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// graphStart is set in the symbol of the first kernel of a launch of a graph: the kernels of a graph are not a part
// of a longer run of the same kernels.
const graphStart = 1 << 62

// mostSpans limits the spans in memory. If a trace has more ranges, or launches of graphs, they do not bound steps.
const mostSpans = 1 << 20

// bounds are the times of launches of graphs, and of the ranges of markers that are steps, by thread.
type bounds struct {
	graphs map[int64][]traceread.Span
	ranges map[int64]*markerRanges
}

// markerRanges are the ranges of a thread with one name.
type markerRanges struct {
	name  int64
	spans []traceread.Span
}

func readBounds(ctx context.Context, tr *traceread.Trace) (*bounds, error) {
	b := &bounds{graphs: map[int64][]traceread.Span{}, ranges: map[int64]*markerRanges{}}
	if err := b.readGraphs(ctx, tr); err != nil {
		return nil, err
	}
	return b, b.readRanges(ctx, tr)
}

func (b *bounds) readGraphs(ctx context.Context, tr *traceread.Trace) error {
	has, err := tracedb.HasTables(tr.DB, "rtl_call", "rtl_function")
	if err != nil || !has {
		return err
	}
	n := 0
	err = tr.Each(ctx, func(r traceread.Row) error {
		var thread, startNS, durationNS int64
		if err := r.Scan(&thread, &startNS, &durationNS); err != nil {
			return err
		}
		if n++; n <= mostSpans && traceread.Possible(startNS, durationNS) {
			b.graphs[thread] = append(b.graphs[thread], traceread.Span{BeginNS: startNS, EndNS: startNS + durationNS})
		}
		return nil
	}, `SELECT thread_id, start_ns, duration_ns FROM rtl_call WHERE thread_id IS NOT NULL AND function_id IN (SELECT f.id FROM rtl_function f
		JOIN rocpd_string s ON s.id = f.name_id WHERE s.string IN ('hipGraphLaunch', 'hipGraphLaunch_spt'))`)
	if n > mostSpans {
		clear(b.graphs)
	}
	for _, spans := range b.graphs {
		sortSpans(spans)
	}
	return err
}

// readRanges reads, for each thread, the outermost ranges of markers that recur.
func (b *bounds) readRanges(ctx context.Context, tr *traceread.Trace) error {
	has, err := tracedb.HasTables(tr.DB, "rtl_marker")
	if err != nil || !has {
		return err
	}
	err = tr.Define(ctx, func(r traceread.Row) error {
		var thread, name, count, level int64
		if err := r.Scan(&thread, &name, &count, &level); err != nil {
			return err
		}
		if b.ranges[thread] == nil && count >= leastSteps {
			b.ranges[thread] = &markerRanges{name: name}
		}
		return nil
	}, `SELECT thread_id, name_id, count(*), min(level) FROM (SELECT * FROM rtl_marker LIMIT ? OFFSET 0)
		WHERE form = 1 AND missing = 0 AND thread_id IS NOT NULL AND name_id IS NOT NULL AND level IS NOT NULL
		GROUP BY thread_id, name_id HAVING count(*) >= ? ORDER BY thread_id, min(level), count(*), name_id`, tr.MostRows, leastSteps)
	if err != nil || len(b.ranges) == 0 {
		return err
	}
	n := 0
	err = tr.Each(ctx, func(r traceread.Row) error {
		var thread, name, startNS, endNS int64
		if err := r.Scan(&thread, &name, &startNS, &endNS); err != nil {
			return err
		}
		one := b.ranges[thread]
		if one == nil || one.name != name || !traceread.Possible(startNS, endNS-startNS) {
			return nil
		}
		if n++; n <= mostSpans {
			one.spans = append(one.spans, traceread.Span{BeginNS: startNS, EndNS: endNS})
		}
		return nil
	}, `SELECT thread_id, name_id, start_ns, end_ns FROM rtl_marker WHERE form = 1 AND missing = 0 AND thread_id IS NOT NULL AND name_id IS NOT NULL
		AND start_ns IS NOT NULL AND end_ns IS NOT NULL`)
	for _, one := range b.ranges {
		sortSpans(one.spans)
	}
	if n > mostSpans {
		clear(b.ranges)
	}
	return err
}

func sortSpans(spans []traceread.Span) {
	slices.SortFunc(spans, func(a, b traceread.Span) int {
		return cmp.Or(cmp.Compare(a.BeginNS, b.BeginNS), cmp.Compare(b.EndNS, a.EndNS))
	})
}

func sortedKeys[V any](table map[int64]V) []int64 { return slices.Sorted(maps.Keys(table)) }

// cursor follows spans in ascending order.
type cursor struct {
	spans []traceread.Span
	in    bool // a kernel of the first span has been met
}

// at moves to the span in which a time is; none: the time is in none. New says that no earlier time was in it.
func (c *cursor) at(ns int64) (none, isNew bool) {
	for len(c.spans) > 0 && c.spans[0].EndNS < ns {
		c.spans, c.in = c.spans[1:], false
	}
	if len(c.spans) == 0 || c.spans[0].BeginNS > ns {
		return true, false
	}
	isNew = !c.in
	c.in = true
	return false, isNew
}

// entered reports whether a time is the first one in a span.
func (c *cursor) entered(ns int64) bool {
	_, isNew := c.at(ns)
	return isNew
}

// ranges makes a step of the kernels that a thread submits in each range of a marker.
type ranges struct {
	cursor cursor
	kinds  *kinds
	step   []kernel
	open   bool
	long   bool // the step has more than mostKernels
}

func (r *ranges) add(k kernel, atNS int64) error {
	none, isNew := r.cursor.at(atNS)
	if none || isNew {
		if err := r.end(); err != nil {
			return err
		}
	}
	if none {
		return nil
	}
	if r.open = true; len(r.step) == mostKernels {
		r.long = true
		return nil
	}
	r.step = append(r.step, k)
	return nil
}

// end ends the open step. Of a step that is too long there is no kind: it is left out.
func (r *ranges) end() error {
	if !r.open || r.long {
		r.open, r.long, r.step = false, false, r.step[:0]
		return nil
	}
	r.open = false
	err := r.kinds.classify(r.step)
	r.step = r.step[:0]
	return err
}
