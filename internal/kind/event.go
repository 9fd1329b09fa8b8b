package kind

import (
	"cmp"
	"context"

	"github.com/rtl-attach/rtl-attach/internal/traceread"
)

// Track is a row of a timeline, divided into lanes that show one event at a time.
type Track struct {
	Kind    string // of its events
	Number  int64  // among the tracks of its kind
	Session *traceread.Session
	GPU     *traceread.Agent // it is drawn below this GPU; nil: below the session's process
	TID     int64            // the thread that its events are of; 0: not known, or not of one
	Name    string           // shown to the user
	About   string           // shown to the user: the kind of its events
	Rank    int              // among the tracks below the same GPU or process; dispatches have 1
	Nested  bool             // its events may contain each other, and are then drawn in one lane
}

// Event is a recorded item of a kind: 0 ≤ StartNS ≤ EndNS ≤ traceread.LatestNS.
type Event struct {
	Track          *Track
	ID             int64 // row in the kind's table: rocprofv3's correlation id
	StartNS, EndNS int64
	Name, Category string
	Operation      int64 // rocprofiler-sdk's number
	TID            int64 // the calling thread; 0: not known
	Call           int64 // set by an export: rocprofv3's correlation id of the call of HIP that submitted it; 0: none is known
	Args           []Arg // for timelines
	Fields         []Field
	Row            []any // of the kind's CSV, int64 and string
}

// CorrelationID is rocprofv3's: that of the call that submitted the event, or its own.
func (e *Event) CorrelationID() int64 { return cmp.Or(e.Call, e.ID) }

// Arg is a number or a text that a timeline shows with an event.
type Arg struct {
	Name  string
	Value int64
	Text  string // harmless; not empty: shown instead of Value
}

// Field is a number of an element of rocprofv3's JSON.
type Field struct {
	Name   string
	Value  int64
	Handle bool // written as {"handle": Value}, as rocprofiler-sdk's ids are
}

// Events calls visit for each valid event of a kind in a trace, in the order of starts, and
// returns how many rows it left out: impossible times, or no valid session. An event is valid
// until visit returns. All events of one track share the same *Track.
type Events func(ctx context.Context, tr *traceread.Trace, visit func(*Event) error) (leftOut int64, err error)

// Counter is a row of a timeline that shows a number of bytes over time.
type Counter struct {
	Session     *traceread.Session
	GPU         *traceread.Agent // as in Track
	Name, About string
}

// Levels calls visit for each change of a kind's counters in a trace, in the order of time.
type Levels func(ctx context.Context, tr *traceread.Trace, visit func(c *Counter, atNS, bytes int64) error) error

// Export describes how to write a kind for other tools. A zero value means: not supported.
type Export struct {
	Events Events
	Levels Levels // for timelines
	CSV    *CSV

	// Submits is SQL for the events that threads submit, in columns id (row), thread (rtl_thread), at
	// (submit, ns) and start; "": calls do not submit the events. The order of Events is that of start and id.
	Submits string

	// Array and BufferKind are the kind's in rocprofv3's JSON (buffer_records) and
	// rocprofiler-sdk's number (ROCPROFILER_BUFFER_TRACING_*).
	Array      string // kinds may share an array
	BufferKind int64
	Messages   bool // the names of its events are in strings of the same name as Array

	// Operations returns rocprofiler-sdk's name of the BufferKind, and the names of its operations in a
	// trace: Event.Operation is an index of them. nil: readers know the operations' numbers.
	Operations func(context.Context, *traceread.Trace) (domain string, names []string, err error)

	RPD *RPD
}

// CSV is a format with a line for each event: Event.Row. Kinds with one *CSV share the format.
type CSV struct {
	Format string // its name
	Suffix string // of the file, instead of the trace's .db
	For    string // the programs that read it
	Header []string
}

// RPD is how SQLite copies the kind from a trace (schema main) into rocmProfileData's tables
// (schema made). Rows and Written count the kind's events, before and after. If the kind has Submits, the
// table temp.submitted_KIND has the calls of its rows (id, call_id), and SQL adds its operations that have
// one to temp.linked (op_id, call_id) instead of giving them a row of rocpd_api.
type RPD struct {
	SQL, Rows, Written string

	IsAPI bool           // the events are rows of rocpd_api only; else each has a row of rocpd_op, too
	Funcs map[string]any // functions that SQL calls, by their names
}
