package export

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// What a trace says of processes that were recorded together.
type together struct {
	windows []span // that all shared
	fates   []string
}

func (tr *trace) readRanks(context.Context) error {
	ranks, err := tracedb.Ranks(tr.db)
	for id, rank := range ranks {
		if s := tr.byID[id]; s != nil {
			s.rank = &rank
		}
	}
	return err
}

// readTogether finds nothing in older traces, which have no such tables.
func (tr *trace) readTogether(ctx context.Context) error {
	var tables int
	err := tr.db.QueryRow("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('rtl_target', 'rtl_common')").Scan(&tables)
	if err != nil || tables < 2 {
		return err
	}
	outcome, detail, err := tracedb.TargetColumns(tr.db)
	if err != nil {
		return err
	}
	err = tr.define(ctx, func(r *sql.Rows) error {
		var pid int64
		var command, what, text string
		err := r.Scan(&pid, &command, &what, &text)
		tr.together.fates = append(tr.together.fates,
			fmt.Sprintf("pid %d (%s): %s: %s", pid, cut(command, longestWord), cut(what, longestWord), cut(text, longestWord)))
		return err
	}, fmt.Sprintf("SELECT pid, command, %[1]s, %[2]s FROM rtl_target WHERE %[1]s NOT IN ('recorded', 'passed over') ORDER BY id", outcome, detail))
	if err != nil {
		return err
	}
	return tr.define(ctx, func(r *sql.Rows) error {
		one := span{what: "common window"}
		err := r.Scan(&one.fromNS, &one.untilNS)
		tr.together.windows = append(tr.together.windows, one)
		return err
	}, "SELECT start_ns, end_ns FROM rtl_common WHERE end_ns > start_ns")
}

// each gives every window, and with it the fates, fit to print: whose session they
// belong to is not known. A trace that would make too many of both is refused.
func (tg *together) each(window func(span) error, fate func(atNS int64, text string) error) error {
	if shown := len(tg.windows) * len(tg.fates); shown > mostDefinitions {
		return fmt.Errorf("%d fates in %d common windows: %w", len(tg.fates), len(tg.windows), ErrImpossible)
	}
	for _, w := range tg.windows {
		if err := window(w); err != nil {
			return err
		}
		for _, f := range tg.fates {
			if err := fate(w.fromNS, sanitize.Text(f)); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep leaves the sessions of other processes out.
func (tr *trace) keep(pid int64) error {
	tr.sessions = slices.DeleteFunc(tr.sessions, func(s *session) bool { return s.pid != pid })
	if len(tr.sessions) == 0 {
		return fmt.Errorf("pid %d: %w", pid, ErrNoSession)
	}
	return nil
}

// mostProcesses bounds the files that a trace can make us write beside it.
const mostProcesses = 1 << 10

// pids are those of the processes of the sessions, each once.
func (tr *trace) pids() (pids []int64, err error) {
	seen := map[int64]bool{}
	for _, s := range tr.sessions {
		if !seen[s.pid] {
			pids = append(pids, s.pid)
		}
		seen[s.pid] = true
	}
	if len(pids) > mostProcesses {
		return nil, fmt.Errorf("%d processes, over %d files (--pid N writes one): %w", len(pids), mostProcesses, ErrImpossible)
	}
	return pids, nil
}

// PIDs are those of the processes that are in a trace; ErrImpossible: too many for a
// file each.
func PIDs(ctx context.Context, path string) ([]int64, error) {
	tr, err := openTrace(ctx, path)
	if err != nil {
		return nil, explain(err)
	}
	defer tr.close()
	return tr.pids()
}
