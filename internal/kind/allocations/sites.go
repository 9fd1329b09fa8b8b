package allocations

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// mostSites is how many call sites a report has.
const mostSites = 100

// Site sums up the blocks of Report.Unreleased by the call that made them.
type Site struct {
	Memory    string `json:"memory"`
	Function  string `json:"function"` // of HIP; "": none was recorded around it
	Operation string `json:"operation"`
	PID       int64  `json:"pid"`
	TID       int64  `json:"tid"` // the calling thread; 0: not known
	Blocks    int64  `json:"blocks"`
	Bytes     int64  `json:"bytes"`
}

// siteKey identifies a site.
type siteKey struct {
	process   *traceread.Process
	tid       int64
	of        owner
	operation Operation
	function  string
}

var siteTable = kind.Table{
	Name: "unreleased-by-call", Columns: []string{"memory", "function", "operation", "pid", "tid", "blocks", "bytes"},
	Rows: func(value any) (rows [][]any) {
		for _, s := range value.(*Report).Sites {
			rows = append(rows, []any{s.Memory, s.Function, s.Operation, s.PID, s.TID, s.Blocks, s.Bytes})
		}
		return rows
	},
}

// around is a call of HIP: the last one of its thread that began before a block, and after the block before that.
type around struct {
	id, startNS, endNS int64
	function           string
}

// findCallers finds the calls of HIP's runtime API in which the unreleased blocks were allocated: on
// their threads, around the calls of HSA. Of calls that contain each other it takes, as the view call_submit
// does, the last one that began, or none if that has ended.
func (t *tally) findCallers(r *kind.Reading) error {
	if is, err := calls.HIPRuntime.IsIn(r.Trace); err != nil || !is {
		return err
	}
	blocks, threads := t.byThread()
	if len(blocks) == 0 {
		return nil
	}
	functions, err := calls.HIPFunctions(r.Ctx, r.Trace)
	if err != nil {
		return err
	}
	begun := make([]around, len(blocks))
	err = r.Trace.Each(r.Ctx, func(row traceread.Row) error {
		var thread, function, durationNS int64
		var c around
		if err := row.Scan(&c.id, &thread, &function, &c.startNS, &durationNS); err != nil {
			return err
		}
		c.endNS = c.startNS + durationNS
		if c.function = functions[function]; c.function == "" || !traceread.Possible(c.startNS, durationNS) {
			return nil
		}
		i, _ := slices.BinarySearchFunc(blocks, c.startNS, func(b *block, startNS int64) int {
			return cmp.Or(cmp.Compare(b.thread.Int64, thread), cmp.Compare(b.startNS, startNS))
		})
		if i < len(blocks) && blocks[i].thread.Int64 == thread && c.isAfter(&begun[i]) {
			begun[i] = c
		}
		return nil
	}, "SELECT id, thread_id, function_id, start_ns, duration_ns FROM rtl_call WHERE thread_id IN (SELECT value FROM json_each(?))", threads)
	var last around
	for i, b := range blocks {
		if i > 0 && b.thread != blocks[i-1].thread {
			last = around{}
		}
		if begun[i].function != "" {
			last = begun[i]
		}
		if last.endNS >= b.startNS {
			b.function = last.function
		}
	}
	return err
}

func (c *around) isAfter(other *around) bool {
	return other.function == "" || cmp.Or(cmp.Compare(c.startNS, other.startNS), cmp.Compare(c.id, other.id)) > 0
}

// byThread returns the unreleased blocks of known threads, sorted by thread and time, and the threads' rows
// as a JSON array.
func (t *tally) byThread() (blocks []*block, threads string) {
	rows := []int64{}
	for _, b := range t.unreleased {
		if b.thread.Valid {
			blocks = append(blocks, b)
		}
	}
	slices.SortFunc(blocks, func(a, b *block) int {
		return cmp.Or(cmp.Compare(a.thread.Int64, b.thread.Int64), cmp.Compare(a.startNS, b.startNS))
	})
	for i, b := range blocks {
		if i == 0 || b.thread != blocks[i-1].thread {
			rows = append(rows, b.thread.Int64)
		}
	}
	text, _ := json.Marshal(rows) // numbers always have a form
	return blocks, string(text)
}

// addSites sums up the unreleased blocks by who made them, the most bytes first.
func (t *tally) addSites() {
	sites := map[siteKey]*Site{}
	for _, b := range t.unreleased {
		key := siteKey{b.session.Process, b.tid, b.owner, b.operation, b.function}
		s := sites[key]
		if s == nil {
			s = &Site{Memory: b.owner.String(), Function: b.function, Operation: names[b.operation], PID: b.session.Process.ID.PID, TID: b.tid}
			sites[key] = s
		}
		s.Blocks++
		s.Bytes = traceread.Sum(s.Bytes, b.bytes.Int64)
	}
	for _, s := range sites {
		t.Sites = append(t.Sites, *s)
	}
	slices.SortFunc(t.Sites, func(a, b Site) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Blocks, a.Blocks), cmp.Compare(a.PID, b.PID), cmp.Compare(a.TID, b.TID),
			cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.Function, b.Function), cmp.Compare(a.Operation, b.Operation))
	})
	t.SitesInAll = int64(len(t.Sites))
	t.Sites = t.Sites[:min(len(t.Sites), mostSites)]
}

// madeBy returns what made blocks for people: a function of HIP with its operation, or the operation alone.
func madeBy(function, operation string) string {
	if function == "" {
		return operation
	}
	return fmt.Sprintf("%s (%s)", function, operation)
}
