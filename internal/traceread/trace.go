// Package traceread reads what a trace file defines: sessions and their processes, GPUs,
// queues, and what was recorded of each. Reports and exports stand on it.
//
// It is the one place for two things. The first is bounds: anybody may have written the
// file, so everything that a reader holds as a whole is bounded. The second is the rules
// that several readers need: which time a session recorded, what is known of a queue, how
// the sessions of a file relate. Rows that grow with the recording (dispatches, copies,
// untimed packets) are not held; their readers stream them.
package traceread

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Trace is an open trace file with everything in it that dispatches refer to. Nothing in
// it changes after Open.
type Trace struct {
	DB        *sql.DB
	Sessions  []*Session // in the order of their ids
	Processes []*Process // in the order of their first sessions
	Agents    map[int64]*Agent
	Queues    map[int64]*Queue
	Losses    []Loss   // in the order of their begins
	Targets   []Target // processes that were to be recorded together; empty in older files
	Common    []Span   // windows that several processes share; EndNS 0: not known
	MostRows  int64    // that fit into the file

	sessions map[int64]*Session
}

// Open opens a trace file and reads what it defines. The caller closes it. Errors are as
// Explain returns them, or tracedb.Open's.
func Open(ctx context.Context, path string) (*Trace, error) {
	// Before the file is opened: a recorder that ends meanwhile has not been killed.
	// Where locks do not work no recorder is found.
	inProgress, _ := tracedb.InProgress(path)
	db, err := tracedb.Open(path)
	if err != nil {
		return nil, Explain(err)
	}
	tr := &Trace{DB: db, Agents: map[int64]*Agent{}, Queues: map[int64]*Queue{}, sessions: map[int64]*Session{}}
	if err := tr.read(ctx, inProgress); err != nil {
		tr.Close()
		return nil, fmt.Errorf("read %s: %w", path, Explain(err))
	}
	return tr, nil
}

// Close closes the file, which was only read.
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
		{"coverage", tr.readAccounts},
		{"counters", tr.readCounters},
		{"kinds of record", tr.readKindAccounts},
		{"losses", tr.readLosses},
		{"processes", tr.readTogether},
	} {
		if err := step.read(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}
