package markers

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/kind"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

//go:embed rpd.sql
var rpdSQL string

const domain = "MARKER_CORE_API"

var export = kind.Export{
	Events: events,
	CSV: &kind.CSV{
		Format: "csv-markers", Suffix: "_marker_api_trace.csv", For: "the ROCTx markers and ranges, with rocprofv3's columns",
		Header: []string{ // rocprofv3's names, and three more
			"Domain", "Function", "Process_Id", "Thread_Id", "Correlation_Id", "Start_Timestamp", "End_Timestamp",
			"Kind", "Level", "Session_Id",
		},
	},
	Array:      "marker_api",
	BufferKind: 7, // ROCPROFILER_BUFFER_TRACING_MARKER_CORE_API
	Messages:   true,
	RPD: &kind.RPD{
		SQL:     rpdSQL,
		Rows:    "SELECT count(*) FROM rtl_marker WHERE start_ns IS NOT NULL AND end_ns IS NOT NULL",
		Written: "SELECT count(*) FROM made.rocpd_api WHERE apiName_id = (SELECT id FROM made.rocpd_string WHERE string = 'UserMarker')",
		IsAPI:   true,
	},
}

// functions are rocprofiler's numbers of the functions that begin each Form.
var functions = [forms]int64{0, 1, 3}

// firstCorrelation is added to the ids of markers: a dispatch's correlation id is its own id.
const firstCorrelation = 1 << 41

// row is a mark or a complete range in the file.
type row struct {
	id, session, form int64
	thread            sql.NullInt64
	tid               int64
	threadName, text  string
	level             sql.NullInt64
	startNS, endNS    int64
}

// place is a thread of a session, or its process (0).
type place struct {
	session *traceread.Session
	thread  int64
}

// eventReader makes the events of a trace.
type eventReader struct {
	trace  *traceread.Trace
	tracks map[place]*kind.Track
	event  kind.Event
}

func events(ctx context.Context, tr *traceread.Trace, visit func(*kind.Event) error) (leftOut int64, err error) {
	r := eventReader{trace: tr, tracks: map[place]*kind.Track{}}
	err = tr.Each(ctx, func(in traceread.Row) error {
		var m row
		err := in.Scan(&m.id, &m.session, &m.form, &m.thread, &m.tid, &m.threadName, &m.text, &m.level, &m.startNS, &m.endNS)
		if err != nil {
			return err
		}
		session := tr.Session(m.session)
		if session == nil || m.form < 0 || m.form >= int64(forms) || m.endNS < m.startNS || !traceread.Possible(m.startNS, m.endNS-m.startNS) {
			leftOut++
			return nil
		}
		if err := r.fill(&m, session); err != nil {
			return err
		}
		return visit(&r.event)
	}, `SELECT m.id, m.session_id, m.form, m.thread_id, coalesce(t.tid, 0), coalesce(t.name, ''), coalesce(n.string, ''), m.level, m.start_ns, m.end_ns
		FROM rtl_marker m LEFT JOIN rtl_thread t ON t.id = m.thread_id LEFT JOIN rocpd_string n ON n.id = m.name_id
		WHERE m.start_ns IS NOT NULL AND m.end_ns IS NOT NULL ORDER BY m.start_ns, m.end_ns DESC, m.level, m.id`)
	return leftOut, err
}

// track returns the track of a thread's marks and ranges, or of the process's ranges.
func (r *eventReader) track(m *row, s *traceread.Session) (*kind.Track, error) {
	at := place{s, m.thread.Int64}
	if Form(m.form) == ProcessRange {
		at.thread = 0
	}
	if t := r.tracks[at]; t != nil {
		return t, nil
	}
	if len(r.tracks) >= traceread.MostDefinitions {
		return nil, fmt.Errorf("over %d threads: %w", traceread.MostDefinitions, traceread.ErrImpossible)
	}
	t := &kind.Track{
		Kind: "markers", Number: int64(len(r.tracks)), Session: s, Name: "ROCTx ranges of the process",
		About: "ranges that any thread may end; those that overlap are drawn below each other", Rank: 2, Nested: true,
	}
	if at.thread != 0 {
		t.Name = fmt.Sprintf("ROCTx of thread %d", m.tid)
		if m.threadName != "" {
			t.Name += " " + sanitize.Text(traceread.Cut(m.threadName, traceread.LongestWord))
		}
		t.About, t.TID = "marks and ranges of the thread", m.tid
	}
	r.tracks[at] = t
	return t, nil
}

// fill fills in the event of a mark or range.
func (r *eventReader) fill(m *row, s *traceread.Session) (err error) {
	e := &r.event
	if e.Track, err = r.track(m, s); err != nil {
		return err
	}
	e.ID, e.TID, e.StartNS, e.EndNS = firstCorrelation+m.id, m.tid, m.startNS, m.endNS
	e.Name, e.Category, e.Operation = sanitize.Text(traceread.Cut(m.text, traceread.LongestName)), "roctx", functions[m.form]
	e.Args = e.Args[:0]
	level := ""
	if m.level.Valid {
		e.Args = append(e.Args, kind.Arg{Name: "level", Value: m.level.Int64})
		level = fmt.Sprint(m.level.Int64)
	}
	e.Row = append(e.Row[:0], domain, e.Name, s.Process.ID.PID, e.TID, e.ID, e.StartNS, e.EndNS, formNames[m.form], level, s.ID)
	return nil
}
