package kind

import (
	"context"

	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// A Reading is what a report asks a kind for.
type Reading struct {
	Ctx    context.Context
	Trace  *traceread.Trace
	Window traceread.Span // records that start in it are counted; accounts are of all of the trace
	Where  string         // what a line says of such a count: "", or " in the window"

	// Kernel returns how many kernels with the name of a row of rocpd_string the report
	// counts, and the sum of their times in ns.
	Kernel func(nameID int64) (calls, totalNS int64)
}

// A Section is what a report says of a kind.
type Section struct {
	Value any    // as JSON, and for the kind's CSV tables
	Lines []Line // as text
	Timed int64  // records with times in the window
}

// A Line is a line of a report. One without a label goes on under the last one.
type Line struct{ Label, Text string }

// A Table is a part of a section as CSV. Times are ns.
type Table struct {
	Name    string
	Columns []string
	Rows    func(value any) [][]any // from Section.Value
}

// IsIn reports whether a trace has the kind's tables. A trace of an older version lacks
// those of a newer kind.
func (k *Kind) IsIn(tr *traceread.Trace) (bool, error) { return tracedb.HasTables(tr.DB, k.Tables...) }

// Accounts adds up what the recorders settled for a kind. sessions is how many did; surplus
// is how many records more arrived than were begun.
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
