package scratch

import (
	"fmt"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Report is the section on scratch memory. An operation has two events: Begun is the sum of Timed and
// Unexplained, which are events.
type Report struct {
	Begun       int64          `json:"begun"`
	Timed       int64          `json:"timed"`
	Unexplained int64          `json:"unexplained"`             // begun, and no record accounts for them
	Surplus     int64          `json:"surplus"`                 // recorded, but never begun: the numbers are wrong
	Silent      int64          `json:"sessions_without_events"` // whose runtime says nothing of scratch memory
	Buried      int64          `json:"sessions_below_a_tool"`   // in which another tool may have kept events to itself
	Incomplete  int64          `json:"incomplete"`              // operations without a start or an end
	Operations  []OperationSum `json:"operations"`              // that start in the report's window
}

// OperationSum sums up the complete operations of one kind.
type OperationSum struct {
	Name    string `json:"name"` // allocate, free, reclaim
	Count   int64  `json:"count"`
	Bytes   int64  `json:"bytes"`    // allocated
	UseOnce int64  `json:"use_once"` // allocations for one dispatch only
	TotalNS int64  `json:"total_ns"`
	MaxNS   int64  `json:"max_ns"`
}

var operationTable = kind.Table{
	Name: "scratch", Columns: []string{"operation", "count", "bytes", "use_once", "total_ns", "max_ns"},
	Rows: func(value any) (rows [][]any) {
		for _, o := range value.(*Report).Operations {
			rows = append(rows, []any{o.Name, o.Count, o.Bytes, o.UseOnce, o.TotalNS, o.MaxNS})
		}
		return rows
	},
}

// read returns nil if scratch memory was not recorded.
func read(r *kind.Reading) (*kind.Section, error) {
	all := &Report{Operations: []OperationSum{}}
	recorded, err := all.readAccounts(r)
	if err != nil || !recorded {
		return nil, err
	}
	for _, step := range []func(*kind.Reading) error{all.readCoverage, all.readIncomplete, all.readOperations} {
		if err := step(r); err != nil {
			return nil, err
		}
	}
	s := &kind.Section{Value: all, Lines: all.lines(r.Where), None: all.none()}
	for _, o := range all.Operations {
		s.Timed = traceread.Sum(s.Timed, o.Count)
	}
	return s, nil
}

// readAccounts adds up the events. A killed recorder has written no final account: only what the
// operations of its session tell of events is known.
func (s *Report) readAccounts(r *kind.Reading) (recorded bool, err error) {
	account, surplus, sessions := kind.Accounts(r.Trace, ring.KindScratchMemory)
	s.Begun, s.Timed, s.Unexplained, s.Surplus = account.Begun, account.Timed, account.Unexplained, surplus
	err = r.Trace.Define(r.Ctx, func(row traceread.Row) error {
		var of, events int64
		if err := row.Scan(&of, &events); err != nil {
			return err
		}
		recorded = true
		if session := r.Trace.Session(of); session != nil {
			if _, settled := session.Kinds[ring.KindScratchMemory.String()]; settled {
				return nil
			}
		}
		s.Begun, s.Timed = traceread.Sum(s.Begun, events), traceread.Sum(s.Timed, events)
		return nil
	}, "SELECT session_id, count(start_ns) + count(end_ns) FROM rtl_scratch GROUP BY session_id")
	return recorded || sessions > 0, err
}

func (s *Report) readCoverage(r *kind.Reading) error {
	return r.Trace.Define(r.Ctx, func(row traceread.Row) error { return row.Scan(&s.Silent, &s.Buried) },
		`SELECT count(DISTINCT CASE WHEN events = 0 THEN session_id END), count(DISTINCT CASE WHEN buried > 0 THEN session_id END)
		FROM rtl_scratch_coverage`)
}

func (s *Report) readIncomplete(r *kind.Reading) error {
	return r.Trace.Define(r.Ctx, func(row traceread.Row) error { return row.Scan(&s.Incomplete) },
		"SELECT count(*) FROM rtl_scratch WHERE start_ns IS NULL OR end_ns IS NULL")
}

// readOperations counts the complete operations that start in the window. It uses total() instead of
// sum(), which fails with "integer overflow" for hostile numbers.
func (s *Report) readOperations(r *kind.Reading) error {
	return r.Trace.Define(r.Ctx, func(row traceread.Row) error {
		var o OperationSum
		err := row.Scan(&o.Name, &o.Count, &o.Bytes, &o.UseOnce, &o.TotalNS, &o.MaxNS)
		s.Operations = append(s.Operations, o)
		return err
	}, `SELECT o.name, count(*), CAST(total(c.bytes) AS INTEGER), CAST(total(CASE c.operation WHEN ? THEN c.flags & ? END) AS INTEGER),
			CAST(total(c.end_ns - c.start_ns) AS INTEGER), CAST(max(c.end_ns - c.start_ns) AS INTEGER)
		FROM rtl_scratch c JOIN rtl_scratch_operation o ON o.id = c.operation
		WHERE c.start_ns >= ? AND c.start_ns < ? AND c.end_ns >= c.start_ns
		GROUP BY o.id ORDER BY o.id`, int64(Allocate), int64(flagUseOnce), r.Window.BeginNS, r.Window.EndNS)
}

// silence is what the report says of a runtime without a tools table.
const silence = "this runtime does not tell: ROCr before 6.0"

// none returns what was not recorded, and why; "": events were.
func (s *Report) none() string {
	switch {
	case s.Begun > 0 || s.Timed > 0 || s.Buried > 0:
		return ""
	case s.Silent > 0:
		return "scratch memory (" + silence + ")"
	}
	return "allocations of scratch memory"
}

// lines returns the section's text. It sanitizes names, which come from the trace.
func (s *Report) lines(where string) []kind.Line {
	all := []kind.Line{{Label: "Scratch", Text: fmt.Sprintf("%s of %s recorded", humanize.Count(s.Timed), humanize.Things(s.Begun, "event"))}}
	say := func(format string, args ...any) { all = append(all, kind.Line{Text: fmt.Sprintf(format, args...)}) }
	if s.Silent > 0 {
		say("%s without: %s", humanize.Things(s.Silent, "session"), silence)
	}
	if s.Buried > 0 {
		say("another tool records scratch memory, too: events that it does not pass on are missing")
	}
	if s.Unexplained > 0 {
		say("%s begun whose record never arrived", humanize.Count(s.Unexplained))
	}
	if s.Surplus > 0 {
		say("%s beyond what the payload says were begun: do not trust these numbers", humanize.Count(s.Surplus))
	}
	if s.Incomplete > 0 {
		say("%s without a start or an end in the recording", humanize.Things(s.Incomplete, "operation"))
	}
	for _, o := range s.Operations {
		say("%s", o.line(where))
	}
	return all
}

func (o *OperationSum) line(where string) string {
	size, once := "", ""
	if o.Bytes > 0 {
		size = ", " + humanize.Bytes(o.Bytes)
	}
	if o.UseOnce > 0 {
		once = fmt.Sprintf("; %s for one dispatch only", humanize.Count(o.UseOnce))
	}
	return fmt.Sprintf("%s%s: %s%s in %s, longest %s%s", sanitize.Text(o.Name), where, humanize.Count(o.Count), size,
		duration(o.TotalNS), duration(o.MaxNS), once)
}

func duration(ns int64) string { return humanize.Duration(time.Duration(ns)) }
