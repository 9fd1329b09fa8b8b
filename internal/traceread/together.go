package traceread

import (
	"context"
	"slices"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Target is one of several processes to record together, or a late worker.
type Target struct {
	PID        int64
	StartTicks int64 // identifies its sessions, together with PID
	Known      bool  // StartTicks is known
	Command    string
	Rank       *int64 // nil: not known
	Outcome    tracedb.Outcome
	ExitCode   int64 // the tool's, if it had recorded this process alone
	Detail     string
	Processes  []*Process // the file's processes with its identity; empty: it was never recorded
	Replaced   bool       // a later recording of the file has the same target
}

// readTogether reads targets and common windows. Files of older versions lack these tables.
func (tr *Trace) readTogether(ctx context.Context) error {
	var tables int
	err := tr.DB.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('rtl_target', 'rtl_common')").Scan(&tables)
	if err != nil || tables < 2 {
		return err
	}
	outcome, detail, err := tracedb.TargetColumns(tr.DB)
	if err != nil {
		return err
	}
	err = tr.Define(ctx, func(r Row) error {
		var t Target
		err := r.Scan(&t.PID, &t.StartTicks, &t.Known, &t.Command, &t.Rank, &t.Outcome, &t.ExitCode, &t.Detail)
		t.Command, t.Detail = Cut(t.Command, LongestWord), Cut(t.Detail, LongestWord)
		t.Outcome = tracedb.Outcome(Cut(string(t.Outcome), LongestWord))
		tr.Targets = append(tr.Targets, t)
		return err
	}, "SELECT pid, coalesce(start_ticks, 0), start_ticks IS NOT NULL, command, rank, "+outcome+", coalesce(exit_code, 0), "+detail+" FROM rtl_target ORDER BY id")
	if err != nil {
		return err
	}
	tr.addTargets()
	return tr.Define(ctx, func(r Row) error {
		var s Span
		err := r.Scan(&s.BeginNS, &s.EndNS)
		tr.Common = append(tr.Common, s)
		return err
	}, "SELECT start_ns, coalesce(end_ns, 0) FROM rtl_common ORDER BY rowid")
}

// addTargets finds the recorded process of each target.
func (tr *Trace) addTargets() {
	type key struct{ pid, startTicks int64 }
	recorded := map[key][]*Process{} // files of several hosts may have several
	for _, p := range tr.Processes {
		k := key{p.ID.PID, p.ID.StartTicks}
		recorded[k] = append(recorded[k], p)
	}
	last := map[key]int{}
	for i := range tr.Targets {
		t := &tr.Targets[i]
		if !t.Known {
			continue
		}
		k := key{t.PID, t.StartTicks}
		t.Processes = recorded[k]
		for _, p := range t.Processes {
			p.IsTarget = true
		}
		if earlier, again := last[k]; again {
			tr.Targets[earlier].Replaced = true
		}
		last[k] = i
	}
}

// Shared returns the window common to all processes of the file. There is none if several
// recordings were appended to the file, or a recording of a single process.
func (tr *Trace) Shared() (Span, bool) {
	if len(tr.Common) != 1 {
		return Span{}, false
	}
	shared := tr.Common[0]
	apart := func(s *Session) bool { return s.FromNS() >= shared.EndNS || !s.Process.IsTarget }
	if shared.EndNS > 0 && slices.ContainsFunc(tr.Sessions, apart) {
		return Span{}, false
	}
	return shared, true
}
