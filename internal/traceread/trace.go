// Package traceread reads the definitions in a trace file: sessions and their processes, GPUs,
// queues, and the accounts of each. Reports and exports use it.
//
// It has two tasks. The first is limits: the file is untrusted, so everything that a reader
// holds in memory is limited. The second is the rules that several readers need: which time a
// session recorded, what is known about a queue, how the sessions of a file relate. Readers
// stream the rows that grow with the recording (dispatches, copies, untimed packets).
package traceread

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Trace is an open trace file with everything to which dispatches refer. It does not change
// after Open.
type Trace struct {
	DB        *sql.DB
	Sessions  []*Session // in the order of their ids
	Processes []*Process // in the order of their first sessions
	Agents    map[int64]*Agent
	Queues    map[int64]*Queue
	Losses    []Loss   // in the order of their begins
	Targets   []Target // processes to record together; empty in older files
	Common    []Span   // windows common to several processes; EndNS 0: not known
	MostRows  int64    // the most rows of one table for which the file has room

	HasFiltered bool // the trace has a table rtl_filtered

	sessions map[int64]*Session
	filtered bool // by the reader
}

// Open opens a trace file and reads its definitions. The caller must close it. Errors are
// tracedb.Open's, or as Explain returns them.
func Open(ctx context.Context, path string) (*Trace, error) { return open(ctx, path, nil) }

func open(ctx context.Context, path string, f *tracedb.ReadFilter) (*Trace, error) {
	// Before the file is opened, so that a recorder that ends meanwhile does not look killed.
	// Without working locks it finds no recorder.
	inProgress, _ := tracedb.InProgress(path)
	db, err := tracedb.OpenFiltered(path, f)
	if err != nil {
		return nil, Explain(err)
	}
	tr := &Trace{DB: db, Agents: map[int64]*Agent{}, Queues: map[int64]*Queue{}, sessions: map[int64]*Session{}, filtered: f != nil}
	if err := tr.read(ctx, inProgress); err != nil {
		tr.Close()
		return nil, fmt.Errorf("read %s: %w", path, Explain(err))
	}
	return tr, nil
}

// Close closes the file.
func (tr *Trace) Close() { _ = tr.DB.Close() }

// Session returns the session with an id; nil if the file has none.
func (tr *Trace) Session(id int64) *Session { return tr.sessions[id] }

func (tr *Trace) read(ctx context.Context, inProgress bool) (err error) {
	if tr.MostRows, err = tracedb.MostRows(tr.DB); err != nil {
		return err
	}
	if err := tr.readSessions(ctx); err != nil {
		return fmt.Errorf("sessions: %w", err)
	}
	tr.addStates(inProgress)
	for _, step := range []struct {
		what string
		read func(context.Context) error
	}{
		{"ranks", tr.readRanks},
		{"GPUs", tr.readAgents},
		{"queues", tr.readQueues},
		{"windows", tr.readWindows},
		{"windows of schedules", tr.readPeriods},
		{"coverage", tr.readAccounts},
		{"filters", tr.readFilters},
		{"counters", tr.readCounters},
		{"kinds of record", tr.readKindAccounts},
		{"kinds that could not be recorded", tr.readUnavailable},
		{"losses", tr.readLosses},
		{"processes", tr.readTogether},
	} {
		if err := step.read(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}
