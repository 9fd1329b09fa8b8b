package calls

import (
	"cmp"
	"database/sql"
	"regexp"
	"slices"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Report is the section on the calls of one API. Begun is the sum of Timed, Untimed and Unexplained.
type Report struct {
	Begun       int64         `json:"begun"`
	Timed       int64         `json:"timed"`       // recorded: they have returned
	Untimed     int64         `json:"untimed"`     // returned, and not recorded
	Unexplained int64         `json:"unexplained"` // begun, and no record accounts for them
	Surplus     int64         `json:"surplus"`     // recorded, but never begun: the numbers are wrong
	Calls       int64         `json:"calls"`       // that begin in the report's window, as all that follows
	TotalNS     int64         `json:"total_ns"`
	Collectives *Collectives  `json:"collectives,omitempty"` // RCCL's only
	Functions   []FunctionSum `json:"functions"`             // the largest total first
	Waits       []Wait        `json:"waits"`                 // time in calls that wait for the GPU, by thread
	Errors      []Error       `json:"errors"`                // results that are not success
	Coverage    []Covered     `json:"coverage"`              // by session
	NotLinked   []int64       `json:"not_linked,omitempty"`  // sessions in which HIP's own threads submit the kernels

	// HIP's only, if calls have kernels. The lists are the largest of all.
	Launches     *Launches    `json:"launches,omitempty"`
	Streams      []Stream     `json:"streams,omitempty"`
	StreamsInAll int64        `json:"streams_in_all,omitempty"`
	StreamWaits  []StreamWait `json:"stream_waits,omitempty"`
	WaitsInAll   int64        `json:"stream_waits_in_all,omitempty"` // calls
	Graphs       []Graph      `json:"graphs,omitempty"`
	GraphsInAll  int64        `json:"graphs_in_all,omitempty"`
}

// FunctionSum sums up the calls of one function. Calls of several threads may overlap.
type FunctionSum struct {
	Name    string `json:"name"`
	Calls   int64  `json:"calls"`
	TotalNS int64  `json:"total_ns"`
	MeanNS  int64  `json:"mean_ns"`
	MaxNS   int64  `json:"max_ns"`
	Errors  int64  `json:"errors"`
}

// Wait sums up a thread's calls of functions that wait for the GPU.
type Wait struct {
	PID     int64  `json:"pid"`
	Thread  int64  `json:"thread"`
	Name    string `json:"thread_name"`
	Calls   int64  `json:"calls"`
	TotalNS int64  `json:"total_ns"`
	MaxNS   int64  `json:"max_ns"`
	Most    string `json:"most"` // the function with most of the time

	mostNS int64
}

// Error is how often a function returned one error.
type Error struct {
	Function string `json:"function"`
	Error    string `json:"error"`
	Calls    int64  `json:"calls"`
}

// Covered is what of an API a session intercepted.
type Covered struct {
	Session   int64  `json:"session"`
	Way       string `json:"way"` // none, table, got, late
	Functions int64  `json:"functions"`
	Hooked    int64  `json:"hooked"`
	Excluded  int64  `json:"excluded"`
	Omitted   int64  `json:"omitted"` // by --operations
	Unknown   int64  `json:"unknown"`
	Modules   int64  `json:"modules"`
	Entries   int64  `json:"entries"`
	Dropped   int64  `json:"dropped"` // entries that could not be replaced

	way Way
}

var ways = [...]string{WayNone: "none", WayTable: "table", WayGOT: "got", WayLate: "late"}

// waiting matches the functions that wait until the GPU has done something.
var waiting = regexp.MustCompile(`^(hip(Stream|Device|Ctx|Event)Synchronize|hip(Free|HostFree|FreeHost|FreeArray)|hipMemcpy\w*|hsa_signal_wait_\w+|hsa_amd_signal_wait_\w+)$`)

func waits(function string) bool {
	return waiting.MatchString(function) && !strings.Contains(function, "Async")
}

// read returns nil if calls of the API were not recorded.
func (a *api) read(r *kind.Reading) (*kind.Section, error) {
	c := &Report{Functions: []FunctionSum{}, Waits: []Wait{}, Errors: []Error{}, Coverage: []Covered{}}
	recorded, err := c.readAccounts(r, a)
	if err != nil || !recorded {
		return nil, err
	}
	if err := c.readCoverage(r, a); err != nil {
		return nil, err
	}
	if err := c.readCalls(r, a); err != nil {
		return nil, err
	}
	if a.id == ring.KindRCCLAPI {
		if c.Collectives, err = readCollectives(r, a); err != nil {
			return nil, err
		}
	}
	return &kind.Section{Value: c, Lines: c.lines(a, r.Where, len(r.Trace.Sessions)), None: c.none(a), Timed: c.Calls}, nil
}

// readAccounts adds up the calls that were begun. A killed recorder has written no final
// account: only the recorded calls of its session are known.
func (c *Report) readAccounts(r *kind.Reading, a *api) (recorded bool, err error) {
	account, surplus, sessions := kind.Accounts(r.Trace, a.id)
	c.Begun, c.Timed, c.Untimed, c.Unexplained, c.Surplus = account.Begun, account.Timed, account.Untimed, account.Unexplained, surplus
	recorded = sessions > 0
	for _, s := range r.Trace.Sessions {
		if _, settled := s.Kinds[a.id.String()]; settled || s.Settled() {
			continue
		}
		var calls int64
		err := r.Trace.DB.QueryRowContext(r.Ctx, `SELECT count(*) FROM rtl_call c JOIN rtl_function f ON f.id = c.function_id
			WHERE c.session_id = ? AND f.api_id = (SELECT id FROM rocpd_string WHERE string = ?)`, s.ID, a.id.String()).Scan(&calls)
		if err != nil {
			return false, err
		}
		recorded = recorded || calls > 0
		c.Begun, c.Timed = traceread.Sum(c.Begun, calls), traceread.Sum(c.Timed, calls)
	}
	return recorded, nil
}

func (c *Report) readCoverage(r *kind.Reading, a *api) error {
	return r.Trace.Define(r.Ctx, func(row traceread.Row) error {
		var v Covered
		var way int64
		err := row.Scan(&v.Session, &way, &v.Functions, &v.Hooked, &v.Excluded, &v.Omitted, &v.Unknown, &v.Modules, &v.Entries, &v.Dropped)
		if err != nil || way < 0 || way >= int64(WayCount) || r.Trace.Session(v.Session) == nil {
			return err
		}
		v.way, v.Way = Way(way), ways[way]
		c.Coverage = append(c.Coverage, v)
		return nil
	}, `SELECT session_id, way, functions, hooked, excluded, omitted, unknown, modules, entries, dropped FROM rtl_call_coverage
		WHERE api_id = (SELECT id FROM rocpd_string WHERE string = ?) ORDER BY session_id`, a.id.String())
}

// group is the calls of one function on one thread with one status.
type group struct {
	function, thread      int64
	status                sql.NullInt64 // NULL: the function has none
	calls, totalNS, maxNS int64
}

// readCalls counts the calls that begin in the window. It uses total() instead of sum(), which
// fails with "integer overflow" for hostile numbers.
func (c *Report) readCalls(r *kind.Reading, a *api) error {
	known, _, err := a.functionsOf(r.Ctx, r.Trace)
	if err != nil || len(known) == 0 {
		return err
	}
	s := newSums(known)
	err = r.Trace.Define(r.Ctx, func(row traceread.Row) error {
		var g group
		if err := row.Scan(&g.function, &g.thread, &g.status, &g.calls, &g.totalNS, &g.maxNS); err != nil {
			return err
		}
		s.add(&g)
		return nil
	}, `SELECT c.function_id, coalesce(c.thread_id, 0), CASE WHEN f.has_status = 1 THEN c.result END, count(*),
			CAST(total(c.duration_ns) AS INTEGER), max(c.duration_ns)
		FROM rtl_call c JOIN rtl_function f ON f.id = c.function_id
		WHERE f.api_id = (SELECT id FROM rocpd_string WHERE string = ?) AND c.start_ns >= ? AND c.start_ns < ? AND c.duration_ns >= 0
		GROUP BY 1, 2, 3`, a.id.String(), r.Window.BeginNS, r.Window.EndNS)
	if err != nil {
		return err
	}
	s.into(c)
	if err := c.readNotLinked(r, a, s); err != nil {
		return err
	}
	if err := s.nameThreads(r, c); err != nil || a.id != ring.KindHIPRuntimeAPI {
		return err
	}
	return c.readSteps(r, known)
}

// sums adds up groups of calls.
type sums struct {
	known      map[int64]*named
	functions  map[string]*FunctionSum
	errors     map[Error]int64     // by Error without Calls
	waits      map[int64]*Wait     // by thread
	activities map[int64]*activity // by thread
}

func newSums(known map[int64]*named) *sums {
	return &sums{known: known, functions: map[string]*FunctionSum{}, errors: map[Error]int64{}, waits: map[int64]*Wait{}, activities: map[int64]*activity{}}
}

func (s *sums) add(g *group) {
	f := s.known[g.function]
	if f == nil {
		return
	}
	one := s.functions[f.name]
	if one == nil {
		one = &FunctionSum{Name: f.name}
		s.functions[f.name] = one
	}
	one.Calls, one.TotalNS, one.MaxNS = traceread.Sum(one.Calls, g.calls), traceread.Sum(one.TotalNS, g.totalNS), max(one.MaxNS, g.maxNS)
	if g.status.Valid && g.status.Int64 != 0 {
		one.Errors = traceread.Sum(one.Errors, g.calls)
		s.errors[Error{Function: f.name, Error: f.resultText(g.status.Int64)}] += g.calls
	}
	if waits(f.name) {
		s.wait(g, f.name)
	}
	if s.activities[g.thread] == nil {
		s.activities[g.thread] = &activity{calls: true}
	}
	if launches(f.name) {
		s.activities[g.thread].launches += g.calls
	}
}

func (s *sums) wait(g *group, function string) {
	w := s.waits[g.thread]
	if w == nil {
		w = &Wait{}
		s.waits[g.thread] = w
	}
	w.Calls, w.TotalNS, w.MaxNS = traceread.Sum(w.Calls, g.calls), traceread.Sum(w.TotalNS, g.totalNS), max(w.MaxNS, g.maxNS)
	if w.Most == "" || g.totalNS > w.mostNS {
		w.Most, w.mostNS = function, g.totalNS
	}
}

// into writes the sums of functions and errors to a report, the largest first.
func (s *sums) into(c *Report) {
	for _, f := range s.functions {
		f.MeanNS = f.TotalNS / max(1, f.Calls)
		c.Functions = append(c.Functions, *f)
		c.Calls, c.TotalNS = traceread.Sum(c.Calls, f.Calls), traceread.Sum(c.TotalNS, f.TotalNS)
	}
	slices.SortFunc(c.Functions, func(a, b FunctionSum) int {
		return cmp.Or(cmp.Compare(b.TotalNS, a.TotalNS), strings.Compare(a.Name, b.Name))
	})
	for e, calls := range s.errors {
		e.Calls = calls
		c.Errors = append(c.Errors, e)
	}
	slices.SortFunc(c.Errors, func(a, b Error) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Function, b.Function), strings.Compare(a.Error, b.Error))
	})
}

// nameThreads writes the waits to a report, with the names of their threads.
func (s *sums) nameThreads(r *kind.Reading, c *Report) error {
	if len(s.waits) == 0 {
		return nil
	}
	err := r.Trace.Define(r.Ctx, func(row traceread.Row) error {
		var id, of, tid int64
		var name string
		if err := row.Scan(&id, &of, &tid, &name); err != nil {
			return err
		}
		if w, session := s.waits[id], r.Trace.Session(of); w != nil && session != nil {
			w.PID, w.Thread, w.Name = session.Process.ID.PID, tid, traceread.Cut(name, traceread.LongestWord)
		}
		return nil
	}, "SELECT id, session_id, tid, coalesce(name, '') FROM rtl_thread")
	for _, w := range s.waits {
		c.Waits = append(c.Waits, *w)
	}
	slices.SortFunc(c.Waits, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(b.TotalNS, a.TotalNS), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Thread, b.Thread))
	})
	return err
}

// csvTables returns the tables of an API.
func (a *api) csvTables() []kind.Table {
	tables := []kind.Table{
		{Name: a.tables + "-calls", Columns: []string{"function", "calls", "total_ns", "mean_ns", "max_ns", "errors"}, Rows: func(value any) (rows [][]any) {
			for _, f := range value.(*Report).Functions {
				rows = append(rows, []any{f.Name, f.Calls, f.TotalNS, f.MeanNS, f.MaxNS, f.Errors})
			}
			return rows
		}},
		{Name: a.tables + "-waits", Columns: []string{"pid", "thread", "thread_name", "calls", "total_ns", "max_ns", "most"}, Rows: func(value any) (rows [][]any) {
			for _, w := range value.(*Report).Waits {
				rows = append(rows, []any{w.PID, w.Thread, w.Name, w.Calls, w.TotalNS, w.MaxNS, w.Most})
			}
			return rows
		}},
		{Name: a.tables + "-errors", Columns: []string{"function", "error", "calls"}, Rows: func(value any) (rows [][]any) {
			for _, e := range value.(*Report).Errors {
				rows = append(rows, []any{e.Function, e.Error, e.Calls})
			}
			return rows
		}},
	}
	switch a.id {
	case ring.KindHIPCompilerAPI: // its functions do not wait, and do not fail
		return tables[:1]
	case ring.KindRCCLAPI: // they do not wait for the GPU
		return append(slices.Delete(tables, 1, 2), collectiveTables...)
	}
	return tables
}
