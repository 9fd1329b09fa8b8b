package report

import (
	"database/sql"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// filteredKernel is the number of kernels that a filter left out: they have no entry in kernels.
const filteredKernel = -1

// filteredName stands for their names.
const filteredName = "(filtered)"

// filteredTime is a time in which filtered kernels of a queue ran, in the file.
type filteredTime struct{ queueID, packet, packetsAfter, startNS, durationNS, queuedNS, kernels int64 }

// filteredTimes yields the times of filtered kernels as they are needed beside the other kernels.
type filteredTimes struct {
	rows *sql.Rows // nil: there are none
	next filteredTime
	more bool
	left int64 // how many rows the file has room for
}

// newFilteredTimes begins to read; order is SQL, or empty for the recorder's order.
func newFilteredTimes(tr *traceread.Trace, order string) (*filteredTimes, error) {
	f := &filteredTimes{left: tr.MostRows}
	if !tr.HasFiltered {
		return f, nil
	}
	var err error
	f.rows, err = tr.DB.Query(`SELECT queue_id, packet_index, packets_after, start_ns, duration_ns, coalesce(queued_ns, ?), kernels
		FROM (SELECT * FROM rtl_filtered LIMIT ? OFFSET 0)`+order, tracedb.Null, tr.MostRows)
	if err != nil {
		return nil, err
	}
	return f, f.advance()
}

func (f *filteredTimes) advance() error {
	if f.more = f.rows.Next(); !f.more {
		return f.rows.Err()
	}
	if f.left--; f.left < 0 {
		return traceread.ErrEndless
	}
	n := &f.next
	err := f.rows.Scan(&n.queueID, &n.packet, &n.packetsAfter, &n.startNS, &n.durationNS, &n.queuedNS, &n.kernels)
	if err != nil {
		return fmt.Errorf("%w: %w", traceread.ErrImpossible, err)
	}
	return nil
}

func (f *filteredTimes) close() {
	if f.rows != nil {
		_ = f.rows.Close() // the file was only read
	}
}

// until calls visit for the times up to a start.
func (f *filteredTimes) until(startNS int64, visit func(*filteredTime) error) error {
	for f.more && f.next.startNS <= startNS {
		if err := visit(&f.next); err != nil {
			return err
		}
		if err := f.advance(); err != nil {
			return err
		}
	}
	return nil
}

// leftOutTime counts a time of filtered kernels: the GPU was busy.
func (a *analysis) leftOutTime(f *filteredTime) error {
	q := a.queues[f.queueID]
	if q == nil || !traceread.Possible(f.startNS, f.durationNS) || f.kernels < 0 || f.packetsAfter < 0 || f.packet > traceread.LatestNS ||
		f.packetsAfter > traceread.LatestNS {
		a.leftOut++
		return nil
	}
	k := pendingKernel{
		startNS: f.startNS, endNS: f.startNS + f.durationNS, submitNS: tracedb.Null,
		packet: f.packet, packetsAfter: f.packetsAfter, thread: tracedb.Null, kernel: filteredKernel,
	}
	if f.queuedNS != tracedb.Null {
		if at, known := traceread.Submit(f.startNS, f.queuedNS); known {
			k.submitNS = at
		}
	}
	q.extend(k.startNS, k.endNS)
	if k.startNS >= a.counted.BeginNS && k.startNS < a.counted.EndNS {
		q.filtered = traceread.Sum(q.filtered, f.kernels)
	}
	return q.gpu.order.add(q, k, a.sweep)
}

// Filter is a filter that left kernels out: of the recording, or of the report.
type Filter struct {
	Name     string `json:"name"` // the flag
	Value    string `json:"value"`
	InReport bool   `json:"in_report"` // false: the trace does not have what it left out
}

// LeftOut is a kernel that filters left out.
type LeftOut struct {
	Name    string `json:"name"`
	Calls   int64  `json:"calls"`
	TotalNS int64  `json:"total_ns"`
}

// mostFilters limits the filters in a report.
const mostFilters = 64

// fillFilters lists the filters: each once, those of the recording first.
func (s *Summary) fillFilters(tr *traceread.Trace, o Options) {
	seen := map[Filter]bool{}
	add := func(f Filter) {
		if !seen[f] && len(s.Filters) < mostFilters {
			s.Filters = append(s.Filters, f)
		}
		seen[f] = true
	}
	for _, one := range tr.Sessions {
		for _, f := range one.Filters {
			add(Filter{f.Name, f.Value, false})
		}
	}
	for _, f := range o.Filter.Settings() {
		add(Filter{f.Name, f.Value, true})
	}
	for _, q := range tr.Queues {
		s.Coverage.Filtered = traceread.Sum(s.Coverage.Filtered, q.Filtered)
	}
}

// readLeftOut lists the kernels that were left out, the most time first.
func (s *Summary) readLeftOut(tr *traceread.Trace, most int) error {
	if s.Coverage.Filtered == 0 {
		return nil
	}
	limit := int64(most)
	if most == 0 {
		limit = traceread.MostDefinitions
	}
	err := tr.Define(background, func(r traceread.Row) error {
		var one LeftOut
		err := r.Scan(&one.Name, &one.Calls, &one.TotalNS)
		s.LeftOutKernels = append(s.LeftOutKernels, one)
		return err
	}, `SELECT coalesce(substr(n.string, 1, ?), ?), CAST(total(f.kernels) AS INTEGER), CAST(total(f.total_ns) AS INTEGER) AS total_ns
		FROM rtl_filtered_kernel f LEFT JOIN rocpd_string n ON n.id = f.name_id
		GROUP BY f.name_id ORDER BY total_ns DESC, f.name_id LIMIT ?`, traceread.LongestName, unnamed, limit)
	if err != nil {
		return err
	}
	return tr.DB.QueryRow("SELECT count(DISTINCT name_id) FROM rtl_filtered_kernel").Scan(&s.LeftOutInAll)
}
