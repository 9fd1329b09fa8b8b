package whyidle

import (
	"context"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/cputrace"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Window is a time in which the threads of a session were observed.
type Window struct {
	Session *traceread.Session
	traceread.Span
	Method      string // bpf, perf, memory
	CPUHz       int64  // samples a second of a running thread; 0: none
	WallHz      int64  // samples a second of each thread; 0: none
	Scheduling  bool   // with all waits
	LeastWaitNS int64  // shorter waits count as running
	Detail      string // what could not be observed, and why; "": nothing
}

// clock returns the clock of the samples that share out the time in which threads ran, or without
// scheduling all the time.
func (w *Window) clock() int64 {
	if w.WallHz > 0 && (w.CPUHz == 0 || !w.Scheduling) {
		return cputrace.WallClock
	}
	return cputrace.CPUClock
}

// Tables are the tables that Find reads.
var tables = []string{
	"rtl_cpu_window", "rtl_cpu_loss", "rtl_cpu_thread", "rtl_cpu_frame", "rtl_cpu_stack", "rtl_cpu_sample", "rtl_cpu_wait",
}

// mostWindows limits the windows of a session, which a recorder observes once.
const mostWindows = 64

// Windows returns the times in which threads were observed; none if the trace has no such times. Of a
// window without an end, the session's end is its end.
func Windows(ctx context.Context, tr *traceread.Trace) (all []Window, err error) {
	if has, err := tracedb.HasTables(tr.DB, tables...); err != nil || !has {
		return nil, err
	}
	of := map[*traceread.Session]int{}
	err = tr.Define(ctx, func(r traceread.Row) error {
		var w Window
		var session int64
		err := r.Scan(&session, &w.BeginNS, &w.EndNS, &w.Method, &w.CPUHz, &w.WallHz, &w.Scheduling, &w.LeastWaitNS, &w.Detail)
		if w.Session = tr.Session(session); w.Session == nil {
			return err
		}
		if of[w.Session]++; of[w.Session] > mostWindows && err == nil {
			return fmt.Errorf("over %d windows of threads in a session: %w", mostWindows, traceread.ErrImpossible)
		}
		if w.EndNS == 0 {
			w.EndNS = w.Session.UntilNS()
		}
		w.Method, w.Detail = traceread.Cut(w.Method, traceread.LongestWord), traceread.Cut(w.Detail, traceread.LongestName)
		w.CPUHz, w.WallHz, w.LeastWaitNS = max(0, w.CPUHz), max(0, w.WallHz), max(0, w.LeastWaitNS)
		if w.BeginNS >= 0 && w.BeginNS <= w.EndNS && w.EndNS <= traceread.LatestNS {
			all = append(all, w)
		}
		return err
	}, `SELECT w.session_id, w.begun_ns, coalesce(w.ended_ns, 0), coalesce(m.string, ''), w.cpu_hz, w.wall_hz, w.scheduling <> 0,
			w.least_wait_ns, coalesce(d.string, '')
		FROM rtl_cpu_window w LEFT JOIN rocpd_string m ON m.id = w.method_id LEFT JOIN rocpd_string d ON d.id = w.detail_id
		ORDER BY w.begun_ns, w.id`)
	return all, err
}

// Loss is a number of events that are missing.
type Loss struct {
	Cause  string
	Events int64
}

// Losses returns the events of threads that are missing, by cause.
func Losses(ctx context.Context, tr *traceread.Trace) (all []Loss, err error) {
	err = tr.Define(ctx, func(r traceread.Row) error {
		var l Loss
		err := r.Scan(&l.Cause, &l.Events)
		l.Cause = traceread.Cut(l.Cause, traceread.LongestWord)
		all = append(all, l)
		return err
	}, `SELECT coalesce(s.string, ''), CAST(total(l.events) AS INTEGER) AS events
		FROM rtl_cpu_loss l LEFT JOIN rocpd_string s ON s.id = l.cause_id GROUP BY l.cause_id ORDER BY events DESC`)
	return all, err
}
