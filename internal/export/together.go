package export

import (
	"context"
	"fmt"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Exports of processes that were recorded together.
type together struct {
	windows  []traceread.Span // common to all
	outcomes []string
}

// commonWindow is the name of the time in which all processes were recorded.
const commonWindow = "common window"

// togetherOf returns nothing for the trace of one process.
func togetherOf(tr *trace) (tg together) {
	for _, t := range tr.Targets {
		switch t.Outcome {
		case tracedb.OutcomeRecorded, tracedb.OutcomeJoined, tracedb.OutcomePassedOver:
		default:
			tg.outcomes = append(tg.outcomes, fmt.Sprintf("pid %d (%s): %s: %s", t.PID, t.Command, t.Outcome, t.Detail))
		}
	}
	for _, w := range tr.Common {
		if w.EndNS > w.BeginNS {
			tg.windows = append(tg.windows, w)
		}
	}
	return tg
}

// each calls visit for every window with all outcomes, sanitized. It repeats the outcomes
// because the trace does not say to which window they belong, and refuses a trace that has
// too many of both.
func (tg *together) each(window func(traceread.Span) error, outcome func(atNS int64, text string) error) error {
	if shown := len(tg.windows) * len(tg.outcomes); shown > traceread.MostDefinitions {
		return fmt.Errorf("%d outcomes in %d common windows: %w", len(tg.outcomes), len(tg.windows), traceread.ErrImpossible)
	}
	for _, w := range tg.windows {
		if err := window(w); err != nil {
			return err
		}
		for _, o := range tg.outcomes {
			if err := outcome(w.BeginNS, sanitize.Text(o)); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep removes the sessions of other processes.
func (tr *trace) keep(pid int64) error {
	tr.pid = pid
	tr.sessions = slices.DeleteFunc(tr.sessions, func(s *traceread.Session) bool { return s.Process.ID.PID != pid })
	if len(tr.sessions) == 0 {
		return fmt.Errorf("pid %d: %w", pid, ErrNoSession)
	}
	return nil
}

// inWindow reports whether a time is in what is exported.
func (tr *trace) inWindow(ns int64) bool { return tr.window.BeginNS <= ns && ns <= tr.window.EndNS }

func (tr *trace) isExported(s *traceread.Session) bool {
	return tr.pid == 0 || s.Process.ID.PID == tr.pid
}

// mostProcesses limits the files that a trace can make an export write.
const mostProcesses = 1 << 10

// pids returns the pids of the sessions' processes, each once.
func (tr *trace) pids() (pids []int64, err error) {
	seen := map[int64]bool{}
	for _, s := range tr.sessions {
		if !seen[s.Process.ID.PID] {
			pids = append(pids, s.Process.ID.PID)
		}
		seen[s.Process.ID.PID] = true
	}
	if len(pids) > mostProcesses {
		return nil, fmt.Errorf("%d processes, over %d files (--pid N writes one): %w", len(pids), mostProcesses, traceread.ErrImpossible)
	}
	return pids, nil
}

// PIDs returns the pids of the processes in a trace; traceread.ErrImpossible if they are too
// many for a file each.
func PIDs(ctx context.Context, path string) ([]int64, error) {
	tr, err := openTrace(ctx, path)
	if err != nil {
		return nil, traceread.Explain(err)
	}
	defer tr.Close()
	return tr.pids()
}
