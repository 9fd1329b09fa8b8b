package traceread

import (
	"cmp"
	"context"
	"fmt"

	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Session is one recording of one process. Times are ns of CLOCK_BOOTTIME; 0: not known.
type Session struct {
	ID              int64
	Process         *Process
	ToolVersion     string
	BegunNS         int64 // the recorder was ready
	ArmedNS         int64 // hooks became active
	DetachedNS      int64 // hooks were removed
	EndedNS         int64 // the last record was written; 0: the recorder was killed
	EndReason       string
	MonotonicOffset int64 // CLOCK_MONOTONIC - CLOCK_BOOTTIME at the begin
	RealtimeOffset  int64 // CLOCK_REALTIME - CLOCK_BOOTTIME at the begin
	Counters        Counters
	Copies          *CopyAccount // nil: the recorder settled none
	QueuesRecorded  int64        // that have a window
	ClaimsKnown     int64        // RawBefore of its queues' accounts
	RecordsLost     bool         // some of its records are missing
}

// Process is a process that was recorded, in one or several sessions. A pid alone does not
// identify it: PIDs are used again, and a file may come from several hosts.
type Process struct {
	ID       ProcessID
	Rank     *int64 // as its launcher said; nil: not known
	Command  string
	Sessions []*Session
	IsTarget bool // it is one of the file's Targets
}

// ProcessID tells processes apart that have one pid.
type ProcessID struct {
	Host            string
	PID, StartTicks int64
}

// Title returns what people know the process by.
func (p *Process) Title() string {
	if p.Rank != nil {
		return fmt.Sprintf("rank %d %s", *p.Rank, p.Command)
	}
	return p.Command
}

// Settled reports whether the recorder came to its end, and settled what was seen of each queue.
func (s *Session) Settled() bool { return s.EndedNS > 0 }

// FromNS returns when the session began to record: when hooks became active or, where that
// is not known, when the recorder was ready.
func (s *Session) FromNS() int64 { return cmp.Or(s.ArmedNS, s.BegunNS) }

// UntilNS returns the end of what can have been recorded: the removal of hooks or, where
// the target ended before it, the recorder's own end; 0: not known.
func (s *Session) UntilNS() int64 { return cmp.Or(s.DetachedNS, s.EndedNS) }

// UnseenClaims returns how many slots were claimed, as the payload counted, that no account
// of the session's queues holds.
func (s *Session) UnseenClaims() int64 { return max(0, s.Counters.RawClaims-s.ClaimsKnown) }

func (tr *Trace) readSessions(ctx context.Context) error {
	known := map[ProcessID]*Process{}
	return tr.Define(ctx, func(r Row) error {
		var id ProcessID
		var command string
		s := &Session{}
		err := r.Scan(&s.ID, &id.PID, &id.StartTicks, &command, &id.Host, &s.ToolVersion, &s.BegunNS, &s.ArmedNS, &s.DetachedNS,
			&s.EndedNS, &s.EndReason, &s.MonotonicOffset, &s.RealtimeOffset)
		if len(tr.Sessions) == MostSessions {
			return fmt.Errorf("over %d sessions: %w", MostSessions, ErrImpossible)
		}
		id.Host, s.ToolVersion, s.EndReason = Cut(id.Host, LongestWord), Cut(s.ToolVersion, LongestWord), Cut(s.EndReason, LongestName)
		p := known[id]
		if p == nil {
			p = &Process{ID: id, Command: Cut(command, LongestWord)}
			known[id] = p
			tr.Processes = append(tr.Processes, p)
		}
		s.Process, p.Sessions = p, append(p.Sessions, s)
		tr.Sessions, tr.sessions[s.ID] = append(tr.Sessions, s), s
		return err
	}, `SELECT id, pid, start_ticks, command, host, tool_version, begun_ns, coalesce(armed_ns, 0), coalesce(detached_ns, 0),
		coalesce(ended_ns, 0), coalesce(end_reason, ''), coalesce(monotonic_offset_start_ns, 0),
		coalesce(realtime_offset_start_ns, 0) FROM rtl_session ORDER BY id`)
}

func (tr *Trace) readRanks(context.Context) error {
	ranks, err := tracedb.Ranks(tr.DB)
	for id, rank := range ranks {
		if s := tr.sessions[id]; s != nil {
			s.Process.Rank = &rank
		}
	}
	return err
}

// ZeroNS returns the begin of the first session to record: times that people give or read
// count from it.
func (tr *Trace) ZeroNS() (zeroNS int64) {
	for i, s := range tr.Sessions {
		if at := s.FromNS(); i == 0 || at < zeroNS {
			zeroNS = at
		}
	}
	return max(0, min(zeroNS, LatestNS/2))
}
