package calls

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"strings"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/kind/calls/function"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

var (
	//go:embed rpd.sql
	rpdSQL string
	//go:embed rpd_ops.sql
	rpdOperationsSQL string
)

// csvHeader has rocprofv3's columns, and three more.
var csvHeader = []string{
	"Domain", "Function", "Process_Id", "Thread_Id", "Correlation_Id", "Start_Timestamp", "End_Timestamp",
	"Result", "Arguments", "Session_Id",
}

var (
	hipCSV = &kind.CSV{
		Format: "csv-hip", Suffix: "_hip_api_trace.csv", For: "the calls of HIP, with rocprofv3's columns", Header: csvHeader,
	}
	hsaCSV = &kind.CSV{
		Format: "csv-hsa", Suffix: "_hsa_api_trace.csv", For: "the calls of HSA, with rocprofv3's columns", Header: csvHeader,
	}
	rcclCSV = &kind.CSV{
		Format: "csv-rccl", Suffix: "_rccl_api_trace.csv", For: "the calls of RCCL, with rocprofv3's columns", Header: csvHeader,
	}
)

func (a *api) export() kind.Export {
	operations := ""
	if a.id == ring.KindHIPRuntimeAPI {
		operations = rpdOperationsSQL
	}
	return kind.Export{
		Events: a.events, CSV: a.csv, Array: a.array, BufferKind: a.bufferKind, Operations: a.operations,
		RPD: &kind.RPD{
			SQL: strings.NewReplacer("$api", a.id.String(), "$domain", a.domain, "$operations", operations).Replace(rpdSQL),
			Rows: fmt.Sprintf(`SELECT count(*) FROM rtl_call c JOIN rtl_function f ON f.id = c.function_id
				WHERE f.api_id = (SELECT id FROM main.rocpd_string WHERE string = '%s')`, a.id),
			Written: fmt.Sprintf("SELECT count(*) FROM made.rocpd_api WHERE domain_id = (SELECT id FROM made.rocpd_string WHERE string = '%s')", a.domain),
			IsAPI:   true,
			Funcs:   map[string]any{"call_arguments": argumentsText},
		},
	}
}

// argumentsText is SQL's call_arguments: the arguments of a call of a function as text.
func argumentsText(name string, flags int64, words []byte) string {
	var f named
	if n, known := function.Named(name); known {
		f.Function = &function.Table()[n]
	}
	return sanitize.Text(join(f.arguments(flags, words)))
}

// operations returns the names of the functions in a trace.
func (a *api) operations(ctx context.Context, tr *traceread.Trace) (string, []string, error) {
	_, names, err := a.functionsOf(ctx, tr)
	return a.domain, names, err
}

// firstCorrelation is added to the ids of calls: a dispatch's correlation id is its own id.
const firstCorrelation = 1 << 40

// CorrelationID returns the id that exports give to the call with this row.
func CorrelationID(row int64) int64 { return firstCorrelation + row }

// row is a call in the file.
type row struct {
	id, session, function int64
	thread                sql.NullInt64
	tid                   int64
	threadName            string
	startNS, durationNS   int64
	result                sql.NullInt64
	flags                 int64
	arguments             []byte
}

// place is a thread of a session; thread 0: not known.
type place struct {
	session *traceread.Session
	thread  int64
}

// eventReader makes the events of one API.
type eventReader struct {
	*api
	known  map[int64]*named
	tracks map[place]*kind.Track
	event  kind.Event
}

func (a *api) events(ctx context.Context, tr *traceread.Trace, visit func(*kind.Event) error) (leftOut int64, err error) {
	known, _, err := a.functionsOf(ctx, tr)
	if err != nil || len(known) == 0 {
		return 0, err
	}
	r := &eventReader{api: a, known: known, tracks: map[place]*kind.Track{}}
	err = tr.Each(ctx, func(in traceread.Row) error {
		var c row
		err := in.Scan(&c.id, &c.session, &c.function, &c.thread, &c.tid, &c.threadName, &c.startNS, &c.durationNS, &c.result, &c.flags, &c.arguments)
		if err != nil {
			return err
		}
		session, f := tr.Session(c.session), known[c.function]
		if session == nil || f == nil || !traceread.Possible(c.startNS, c.durationNS) {
			leftOut++
			return nil
		}
		if err := r.fill(&c, session, f); err != nil {
			return err
		}
		return visit(&r.event)
	}, `SELECT c.id, c.session_id, c.function_id, c.thread_id, coalesce(t.tid, 0), coalesce(t.name, ''), c.start_ns, c.duration_ns,
			c.result, c.flags, c.arguments
		FROM rtl_call c JOIN rtl_function f ON f.id = c.function_id LEFT JOIN rtl_thread t ON t.id = c.thread_id
		WHERE f.api_id = (SELECT id FROM rocpd_string WHERE string = ?) ORDER BY c.start_ns, c.id`, a.id.String())
	return leftOut, err
}

// track returns the track of a thread's calls.
func (r *eventReader) track(c *row, s *traceread.Session) (*kind.Track, error) {
	at := place{s, c.thread.Int64}
	if t := r.tracks[at]; t != nil {
		return t, nil
	}
	if len(r.tracks) >= traceread.MostDefinitions {
		return nil, fmt.Errorf("over %d threads: %w", traceread.MostDefinitions, traceread.ErrImpossible)
	}
	of := "of unknown threads"
	if c.thread.Valid {
		w := Wait{Thread: c.tid, Name: traceread.Cut(c.threadName, traceread.LongestWord)}
		of = "of " + w.title()
	}
	t := &kind.Track{
		Kind: r.id.String(), Number: int64(len(r.tracks)), Session: s, Name: r.api.track + " " + of,
		About: "calls of the API; those that contain each other are drawn below each other", Rank: 2, TID: c.tid,
	}
	r.tracks[at] = t
	return t, nil
}

// fill fills in the event of a call.
func (r *eventReader) fill(c *row, s *traceread.Session, f *named) (err error) {
	e := &r.event
	if e.Track, err = r.track(c, s); err != nil {
		return err
	}
	e.ID, e.TID, e.StartNS, e.EndNS = firstCorrelation+c.id, c.tid, c.startNS, c.startNS+c.durationNS
	e.Name, e.Category, e.Operation = f.name, r.array, f.number
	arguments := f.arguments(c.flags, c.arguments)
	e.Args = e.Args[:0]
	for _, a := range arguments {
		e.Args = append(e.Args, kind.Arg{Name: a.Name, Text: sanitize.Text(a.Value)})
	}
	result := ""
	if c.result.Valid {
		result = sanitize.Text(f.resultText(c.result.Int64))
		e.Args = append(e.Args, kind.Arg{Name: "result", Text: result})
	}
	e.Row = append(e.Row[:0], r.domain, e.Name, s.Process.ID.PID, c.tid, e.ID, e.StartNS, e.EndNS,
		result, sanitize.Text(join(arguments)), s.ID)
	return nil
}
