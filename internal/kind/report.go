package kind

import (
	"context"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Reading is a report's request to a kind.
type Reading struct {
	Ctx    context.Context
	Trace  *traceread.Trace
	Window traceread.Span // count records that start in it; accounts are of the whole trace
	Where  string         // text for a line with such a count: "", or " in the window"

	// Kernel returns how many kernels with the name of a row of rocpd_string the report
	// counts, and the sum of their times in ns.
	Kernel func(nameID int64) (calls, totalNS int64)
}

// Section is a kind's section of a report.
type Section struct {
	Value any    // as JSON, and for the kind's CSV tables
	Lines []Line // as text
	None  string // not empty: the session recorded nothing of the kind. The text says this, after "None of", instead of Lines
	Timed int64  // records with times in the window
}

// Line is a line of a report. A line without a label continues the last one.
type Line struct{ Label, Text string }

// Table is a part of a section as CSV. Times are ns.
type Table struct {
	Name    string
	Columns []string
	Rows    func(value any) [][]any // from Section.Value
}

// IsIn reports whether a trace has the kind's tables. A trace of an older version lacks the
// tables of newer kinds.
func (k *Kind) IsIn(tr *traceread.Trace) (bool, error) { return tracedb.HasTables(tr.DB, k.Tables...) }

// Accounts adds up the final accounts of a kind. sessions is the number of sessions that have
// one; surplus is how many more records arrived than were begun.
func Accounts(tr *traceread.Trace, id ring.Kind) (sum traceread.KindAccount, surplus int64, sessions int) {
	for _, s := range tr.Sessions {
		a, settled := s.Kinds[id.String()]
		if !settled {
			continue
		}
		sessions++
		sum.Begun = traceread.Sum(sum.Begun, max(0, a.Begun))
		sum.Timed = traceread.Sum(sum.Timed, max(0, a.Timed))
		sum.Untimed = traceread.Sum(sum.Untimed, max(0, a.Untimed))
		sum.Unexplained = traceread.Sum(sum.Unexplained, max(0, a.Unexplained))
		surplus = traceread.Sum(surplus, max(0, -max(a.Unexplained, -traceread.LatestNS)))
	}
	return sum, surplus, sessions
}
