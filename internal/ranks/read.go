package ranks

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/collectives"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// lane is the kernels with one name of one rank, in the order of their ends.
type lane struct {
	rank    int
	name    int64
	comm    int32 // the communicator; 0: not known; below 0: several may have made the same calls
	kernels []Kernel
	free    []int32 // kernels that are not matched yet
}

// isExact reports whether the ranks of a communicator are known.
func (l *lane) isExact() bool { return l.comm > 0 }

// laneKey identifies a lane.
type laneKey struct {
	rank int
	name int64
	comm int32
}

func (a *Analysis) readNames(ctx context.Context, tr *traceread.Trace, p *collectives.Patterns) error {
	return tr.Each(ctx, func(r traceread.Row) error {
		var id int64
		var name string
		err := r.Scan(&id, &name)
		if len(a.names) < mostLanes && p.Match(name) {
			a.names[id] = true
		}
		return err
	}, `SELECT id, substr(string, 1, ?) FROM rocpd_string WHERE id IN (SELECT name_id FROM rtl_launch)`, traceread.LongestName)
}

// reading collects the kernels of a trace's collectives.
type reading struct {
	*Analysis
	tr       *traceread.Trace
	window   traceread.Span
	comms    map[int64]int32 // by the kernel's row
	contexts map[int64]*place
	query    *sql.Stmt
	ranks    map[Rank]int
	lanes    map[laneKey]*lane
	kernels  int
}

// place is what the kernels of a context share; rank -1: they are no collectives, or of no known GPU, or beyond the limits.
type place struct {
	rank   int
	name   int64
	beyond bool
}

// mostContexts limits the contexts in memory. At the limit all are dropped, and read again when needed.
const mostContexts = 1 << 16

func (a *Analysis) readKernels(ctx context.Context, tr *traceread.Trace, window traceread.Span) (err error) {
	r := &reading{Analysis: a, tr: tr, window: window, contexts: map[int64]*place{}, ranks: map[Rank]int{}, lanes: map[laneKey]*lane{}}
	if r.comms, err = calls.KernelCommunicators(ctx, tr); err != nil {
		return err
	}
	r.query, err = tr.DB.Prepare(`SELECT x.queue_id, l.name_id FROM rtl_context x JOIN rtl_launch l ON l.id = x.launch_id WHERE x.id = ?`)
	if err != nil {
		return err
	}
	defer r.query.Close()
	if err := r.readBlocks(ctx); err != nil {
		return err
	}
	for _, l := range r.lanes {
		slices.SortFunc(l.kernels, func(a, b Kernel) int {
			return cmp.Or(cmp.Compare(a.EndNS, b.EndNS), cmp.Compare(a.StartNS, b.StartNS))
		})
		a.lanes = append(a.lanes, l)
	}
	a.sortRanks()
	slices.SortFunc(a.lanes, func(x, y *lane) int {
		return cmp.Or(cmp.Compare(x.name, y.name), cmp.Compare(x.comm, y.comm), cmp.Compare(x.rank, y.rank))
	})
	return nil
}

// sortRanks sorts the ranks by host, GPU and process.
func (a *Analysis) sortRanks() {
	order := make([]int, len(a.Ranks))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int {
		p, q := a.Ranks[x], a.Ranks[y]
		return cmp.Or(cmp.Compare(p.Process.ID.Host, q.Process.ID.Host), cmp.Compare(p.GPU, q.GPU), cmp.Compare(p.Process.ID.PID, q.Process.ID.PID), cmp.Compare(x, y))
	})
	sorted, number := make([]*Rank, len(order)), make([]int, len(order))
	for now, before := range order {
		sorted[now], number[before] = a.Ranks[before], now
	}
	a.Ranks = sorted
	for _, l := range a.lanes {
		l.rank = number[l.rank]
	}
}

func (r *reading) readBlocks(ctx context.Context) error {
	blocks, err := tracedb.ReadBlocks(r.tr.DB, "rtl_execution", "context_id", "start_ns", "duration_ns")
	if err != nil {
		return err
	}
	defer blocks.Close()
	var values []int64
	for {
		if values, err = blocks.Next(values); err != nil || len(values) == 0 {
			return err
		}
		for v := values; len(v) > 0; v = v[blocks.Width():] {
			if err := r.add(v[0], v[1], v[2], v[3]); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return traceread.Interrupted(ctx, err)
		}
	}
}

// add takes a kernel, if it is a collective in the window.
func (r *reading) add(id, contextID, startNS, durationNS int64) error {
	p, known := r.contexts[contextID]
	if !known {
		var err error
		if p, err = r.place(contextID); err != nil {
			return err
		}
	}
	if p.rank < 0 && !p.beyond || !traceread.Possible(startNS, durationNS) {
		return nil
	}
	endNS := startNS + durationNS
	if endNS <= r.window.BeginNS || startNS >= r.window.EndNS || r.LeftOutNS > 0 && endNS >= r.LeftOutNS {
		return nil
	}
	if p.beyond {
		r.Beyond++
		return nil
	}
	key := laneKey{p.rank, p.name, r.comms[id]}
	l := r.lanes[key]
	if l == nil {
		if len(r.lanes) == mostLanes {
			r.Beyond++
			return nil // see Usage.Kernel
		}
		l = &lane{rank: key.rank, name: key.name, comm: key.comm}
		r.lanes[key] = l
	}
	l.kernels = append(l.kernels, Kernel{startNS, endNS, -1})
	if r.kernels++; r.kernels > mostKernels {
		r.cut()
	}
	return nil
}

// place returns what the kernels of a context share.
func (r *reading) place(contextID int64) (*place, error) {
	p := &place{rank: -1}
	var queue int64
	err := r.query.QueryRow(contextID).Scan(&queue, &p.name)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("%w: %w", traceread.ErrImpossible, err)
	}
	if q := r.tr.Queues[queue]; err == nil && q != nil && r.names[p.name] {
		p.rank = r.rank(Rank{q.Agent.Session.Process, q.Agent.GPU})
		p.beyond = p.rank < 0
	}
	if len(r.contexts) >= mostContexts {
		clear(r.contexts)
	}
	r.contexts[contextID] = p
	return p, nil
}

func (r *reading) rank(of Rank) int {
	at, known := r.ranks[of]
	if !known {
		if len(r.Ranks) == mostRanks {
			return -1
		}
		at = len(r.Ranks)
		r.ranks[of] = at
		r.Ranks = append(r.Ranks, &of)
	}
	return at
}

// cut leaves out the latest quarter of the kernels: the same time is compared on all ranks.
func (r *reading) cut() {
	ends := make([]int64, 0, r.kernels)
	for _, l := range r.lanes {
		for _, k := range l.kernels {
			ends = append(ends, k.EndNS)
		}
	}
	slices.Sort(ends)
	r.LeftOutNS = max(1, ends[len(ends)-len(ends)/4])
	r.kernels = 0
	for _, l := range r.lanes {
		l.kernels = slices.DeleteFunc(l.kernels, func(k Kernel) bool { return k.EndNS >= r.LeftOutNS })
		r.kernels += len(l.kernels)
	}
}
