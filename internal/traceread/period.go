package traceread

import (
	"context"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// readPeriods finds the sessions that are windows of a schedule.
func (tr *Trace) readPeriods(ctx context.Context) error {
	if has, err := tracedb.HasTables(tr.DB, "rtl_period"); err != nil || !has {
		return err
	}
	return tr.Define(ctx, func(r Row) error {
		var of int64
		err := r.Scan(&of)
		if s := tr.sessions[of]; s != nil {
			s.Scheduled = true
		}
		return err
	}, "SELECT session_id FROM rtl_period WHERE session_id IS NOT NULL")
}

// Off returns the times between two windows of a process's schedules: nothing was recorded then.
func (p *Process) Off() (all []Span) {
	var last *Session
	for _, s := range p.Sessions {
		if last != nil && last.Scheduled && s.Scheduled {
			if off := (Span{BeginNS: last.UntilNS(), EndNS: s.FromNS()}); off.BeginNS > 0 && off.BeginNS < off.EndNS && off.EndNS <= LatestNS {
				all = append(all, off)
			}
		}
		last = s
	}
	return all
}
