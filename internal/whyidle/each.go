package whyidle

import (
	"context"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Wait is a time in which a thread did not run: blocked from OutNS to WokenNS, ready from then to InNS.
type Wait struct {
	Thread               int64 // its row in rtl_thread
	OutNS, WokenNS, InNS int64
	Cause                Cause // of its blocked part
}

// Sample is what a thread was at when a clock ticked.
type Sample struct {
	Thread, TimeNS int64
	State          int64 // cputrace.RanUser, RanKernel, DidNotRun
	Stack          int64 // its row in rtl_cpu_stack; 0: not known
}

// EachWait calls visit for each wait, in the order of their ends. SQLite sorts them.
func EachWait(ctx context.Context, tr *traceread.Trace, windows []Window, visit func(*Wait) error) error {
	of, err := readSessions(ctx, tr, windows)
	if err != nil {
		return err
	}
	rows, err := inTimeOrder[wait](ctx, tr, "rtl_cpu_wait", fmt.Sprintf(wakes, int64(traceread.LatestNS)), waitColumns, of.waitOf)
	if err != nil {
		return err
	}
	defer rows.close() // the file was only read
	for rows.nextNS() <= traceread.LatestNS {
		w, err := rows.take()
		if err != nil {
			return traceread.Interrupted(ctx, err)
		}
		if err := visit(&Wait{w.thread, w.outNS, w.wokenNS, w.inNS, w.cause()}); err != nil {
			return err
		}
	}
	return nil
}

// EachSample calls visit for each sample, in the recorder's order.
func EachSample(ctx context.Context, tr *traceread.Trace, visit func(*Sample) error) error {
	return tr.Each(ctx, func(r traceread.Row) error {
		var s Sample
		if err := r.Scan(&s.Thread, &s.TimeNS, &s.State, &s.Stack); err != nil {
			return err
		}
		if s.TimeNS < 0 || s.TimeNS > traceread.LatestNS {
			return nil
		}
		return visit(&s)
	}, "SELECT thread_id, time_ns, state, coalesce(stack_id, 0) FROM (SELECT * FROM rtl_cpu_sample LIMIT ? OFFSET 0)", tr.MostRows)
}
