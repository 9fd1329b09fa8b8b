package traceread

import (
	"context"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/filter"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// mostIterations limits the ranges that a filter of iterations holds in memory.
const mostIterations = 1 << 20

// OpenFiltered is Open for a reader that gets only the kernels and processes that f selects; nil:
// all. What f leaves out is in the trace as if the recording had left it out.
func OpenFiltered(ctx context.Context, path string, f *filter.Filter) (*Trace, error) {
	whole, err := Open(ctx, path)
	if err != nil || len(f.Settings()) == 0 {
		return whole, err
	}
	defer whole.Close() // after the second one is open: a recorder changes nothing between them
	decided, err := whole.decide(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("filter %s: %w", path, Explain(err))
	}
	return open(ctx, path, decided)
}

// decide applies a filter to all that the trace defines.
func (tr *Trace) decide(ctx context.Context, f *filter.Filter) (*tracedb.ReadFilter, error) {
	kernels, err := tr.decideKernels(ctx, f)
	if err != nil {
		return nil, err
	}
	gpus := map[int64]bool{}
	for id, a := range tr.Agents {
		bdf := int64(-1)
		if a.BDF != nil {
			bdf = *a.BDF
		}
		gpus[id] = f.HasGPU(a.GPU, bdf)
	}
	decided := &tracedb.ReadFilter{
		Session: func(id int64) bool {
			s := tr.sessions[id]
			return s != nil && (s.Process.Rank != nil && f.HasRank(*s.Process.Rank) || !f.OfRanks())
		},
		Kernel: func(nameID, symbolID, agentID int64) bool {
			return kernels[kernelID{nameID, symbolID}] && gpus[agentID]
		},
	}
	if f.OfIterations() {
		decided.ByIteration = true
		decided.Iterations, err = tr.countIterations(ctx, f)
	}
	return decided, err
}

// kernelID is a kernel's name and symbol in rocpd_string.
type kernelID struct{ name, symbol int64 }

func (tr *Trace) decideKernels(ctx context.Context, f *filter.Filter) (map[kernelID]bool, error) {
	kernels := map[kernelID]bool{}
	err := tr.Define(ctx, func(r Row) error {
		var id kernelID
		var name, symbol string
		err := r.Scan(&id.name, &id.symbol, &name, &symbol)
		kernels[id] = f.HasName(name, symbol)
		return err
	}, fmt.Sprintf(`SELECT l.name_id, l.symbol_id, coalesce(substr(n.string, 1, %[1]d), ''), coalesce(substr(s.string, 1, %[1]d), '')
		FROM (SELECT DISTINCT name_id, symbol_id FROM rtl_launch) l
		LEFT JOIN rocpd_string n ON n.id = l.name_id LEFT JOIN rocpd_string s ON s.id = l.symbol_id`, LongestName))
	return kernels, err
}

// counted is a kernel name in one session.
type counted struct{ session, name int64 }

// iterationCount counts the dispatches of one kernel name in one session.
type iterationCount struct {
	of     counted
	n      uint64
	at     int // in the ranges of the filter
	isOpen bool
	open   tracedb.Iterations
}

// countIterations finds the dispatches of each kernel name that the filter selects, in the
// order of their ends, as the recorder counts them. SQLite sorts the rows.
func (tr *Trace) countIterations(ctx context.Context, f *filter.Filter) (all []tracedb.Iterations, err error) {
	begins, err := tr.declaredBegins(ctx)
	if err != nil {
		return nil, err
	}
	var c iterationCount
	finish := func() error {
		if c.isOpen {
			all = append(all, c.open)
		}
		if len(all) > mostIterations {
			return fmt.Errorf("over %d ranges of iterations: %w", mostIterations, ErrImpossible)
		}
		return nil
	}
	err = tr.Each(ctx, func(r Row) error {
		var of counted
		var id, startNS, durationNS int64
		if err := r.Scan(&of.session, &of.name, &id, &startNS, &durationNS); err != nil {
			return err
		}
		if startNS < begins[of.session] || !Possible(startNS, durationNS) {
			return nil
		}
		if of != c.of {
			if err := finish(); err != nil {
				return err
			}
			c = iterationCount{of: of}
		}
		if c.count(id, startNS+durationNS, f.Iterations()) {
			all = append(all, c.open)
		}
		return nil
	}, `SELECT q.session_id, l.name_id, e.id, e.start_ns, e.duration_ns FROM (SELECT * FROM rtl_execution LIMIT ? OFFSET 0) e
		CROSS JOIN rtl_context c ON c.id = e.context_id CROSS JOIN rtl_queue q ON q.id = c.queue_id CROSS JOIN rtl_launch l ON l.id = c.launch_id
		ORDER BY q.session_id, l.name_id, e.start_ns + e.duration_ns, e.id`, tr.MostRows)
	if err != nil {
		return nil, err
	}
	return all, finish()
}

// count counts a row, and reports whether a range ends with it.
func (c *iterationCount) count(id, endNS int64, ranges filter.Ranges) (ends bool) {
	c.n++
	if c.at == len(ranges) || c.n < ranges[c.at].First {
		return false
	}
	if !c.isOpen {
		c.isOpen = true
		c.open = tracedb.Iterations{Session: c.of.session, Name: c.of.name, FirstEndNS: endNS, FirstID: id}
	}
	c.open.LastEndNS, c.open.LastID = endNS, id
	if c.n < ranges[c.at].Last {
		return false
	}
	c.at++
	c.isOpen = false
	return true
}

// declaredBegins returns the begin of each session's declared window.
func (tr *Trace) declaredBegins(ctx context.Context) (map[int64]int64, error) {
	begins := map[int64]int64{}
	for _, s := range tr.Sessions {
		begins[s.ID] = s.FromNS()
	}
	if has, err := tracedb.HasTables(tr.DB, "rtl_common"); err != nil || !has {
		return begins, err
	}
	err := tr.Define(ctx, func(r Row) error {
		var id, startNS int64
		err := r.Scan(&id, &startNS)
		begins[id] = startNS
		return err
	}, "SELECT session_id, start_ns FROM rtl_declared WHERE start_ns IS NOT NULL")
	return begins, err
}

// readFilters reads the filters of the recordings, and how much they, and the filter of this
// reader, left out of each queue.
func (tr *Trace) readFilters(ctx context.Context) error {
	has, err := tracedb.HasTables(tr.DB, "rtl_filter", "rtl_filtered", "rtl_filtered_kernel")
	if err != nil || !has && !tr.filtered {
		return err
	}
	tr.HasFiltered = true
	if has {
		if err := tr.readSettings(ctx); err != nil {
			return err
		}
	}
	left, err := tr.countFiltered(ctx, "rtl_filtered")
	if err != nil {
		return err
	}
	before := left
	if tr.filtered {
		before = map[int64]int64{}
		if has {
			if before, err = tr.countFiltered(ctx, "main.rtl_filtered"); err != nil {
				return err
			}
		}
	}
	for id, n := range left {
		q := tr.Queues[id]
		if q == nil {
			continue
		}
		q.Filtered = n
		if q.Account != nil {
			q.Account.Timed = max(0, q.Account.Timed-(n-before[id])) // of the kernels that the recording had
		}
	}
	return nil
}

func (tr *Trace) readSettings(ctx context.Context) error {
	return tr.Define(ctx, func(r Row) error {
		var of int64
		var one filter.Setting
		err := r.Scan(&of, &one.Name, &one.Value)
		one.Name, one.Value = Cut(one.Name, LongestWord), Cut(one.Value, LongestWord)
		if s := tr.sessions[of]; s != nil {
			s.Filters = append(s.Filters, one)
		}
		return err
	}, "SELECT session_id, name, value FROM rtl_filter")
}

func (tr *Trace) countFiltered(ctx context.Context, table string) (map[int64]int64, error) {
	kernels := map[int64]int64{}
	err := tr.Define(ctx, func(r Row) error {
		var of, n int64
		err := r.Scan(&of, &n)
		kernels[of] = max(0, n)
		return err
	}, "SELECT queue_id, CAST(total(kernels) AS INTEGER) FROM (SELECT queue_id, kernels FROM "+table+" LIMIT ? OFFSET 0) GROUP BY queue_id", tr.MostRows)
	return kernels, err
}
