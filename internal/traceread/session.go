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
	State           State
	BegunNS         int64  // the recorder was ready
	ArmedNS         int64  // hooks became active
	DetachedNS      int64  // hooks were removed
	EndedNS         int64  // the accounts were settled; 0: never, or not yet
	EndReason       string // "": not yet, or the recorder was killed
	WindowStartNS   int64  // the declared window; FromNS and UntilNS tell it for all formats
	WindowEndNS     int64
	RecordedUntilNS int64 // every kernel that ended before it is in the trace, or counted as lost or untimed
	MonotonicOffset int64 // CLOCK_MONOTONIC - CLOCK_BOOTTIME at the begin
	RealtimeOffset  int64 // CLOCK_REALTIME - CLOCK_BOOTTIME at the begin
	Counters        Counters
	Kinds           map[string]KindAccount // by the kinds' names; those that the recorder settled
	QueuesRecorded  int64                  // that have a window
	ClaimsKnown     int64                  // RawBefore of its queues' accounts
	RecordsLost     bool                   // some of its records are missing

	recorder recorder
}

// recorder is the process that wrote a session; zero in files of format 1.
type recorder struct{ pid, startTicks, pidNamespace int64 }

// State is how far the recorder of a session has come.
type State int

// The states of a session.
const (
	Ended      State = iota // the recorder settled what was seen
	InProgress              // a recorder is writing the session
	CutOff                  // the recorder was killed
	Unwritable              // the trace could not be written on; EndReason says why
)

// Process is a process that was recorded, in one or several sessions. A pid alone does not
// identify it: PIDs are used again, and a file may come from several hosts.
type Process struct {
	ID       ProcessID
	Rank     *int64 // as its launcher said; nil: not known
	Command  string
	Sessions []*Session
	IsTarget bool // it is one of the file's Targets
}

// ProcessID distinguishes processes that have the same pid.
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
func (s *Session) Settled() bool { return s.State == Ended }

// Unfinished says why the session has no settled accounts; "" if it has.
func (s *Session) Unfinished() string {
	switch s.State {
	case InProgress:
		return "still being recorded"
	case CutOff:
		return "the recorder was killed"
	case Unwritable:
		return s.EndReason
	}
	return ""
}

// EndedAsAsked reports whether the user, or the duration that the user gave, ended the session.
func (s *Session) EndedAsAsked() bool {
	switch s.EndReason {
	case tracedb.EndElapsed, tracedb.EndInterrupted, tracedb.EndRequested, "detached": // the last one in format 1
		return s.Settled()
	}
	return false
}

// FromNS returns the begin of the declared window: when hooks became active or, where that
// is not known (HasBegin), when the recorder was ready.
func (s *Session) FromNS() int64 { return cmp.Or(s.WindowStartNS, s.ArmedNS, s.BegunNS) }

// HasBegin reports whether the file says when the declared window began.
func (s *Session) HasBegin() bool { return s.WindowStartNS > 0 || s.ArmedNS > 0 }

// UntilNS returns the end of the declared window, as far as the trace is complete in it; 0:
// not known. In format 1 it is the removal of hooks or, where the target ended before it,
// the recorder's own end.
func (s *Session) UntilNS() int64 {
	switch {
	case s.Settled():
		return cmp.Or(s.WindowEndNS, s.DetachedNS, s.EndedNS)
	case s.WindowEndNS > 0:
		return min(s.WindowEndNS, s.RecordedUntilNS)
	}
	return s.RecordedUntilNS
}

// UnseenClaims returns how many slots were claimed, as the payload counted, that no account
// of the session's queues holds.
func (s *Session) UnseenClaims() int64 { return max(0, s.Counters.RawClaims-s.ClaimsKnown) }

// The columns of a session. Format 1 has none of windowColumns.
const (
	sessionColumns = `id, pid, start_ticks, command, host, tool_version, begun_ns, coalesce(armed_ns, 0), coalesce(detached_ns, 0),
		coalesce(ended_ns, 0), coalesce(end_reason, ''), coalesce(monotonic_offset_start_ns, 0), coalesce(realtime_offset_start_ns, 0)`
	windowColumns = `coalesce(window_start_ns, 0), coalesce(window_end_ns, 0), coalesce(recorded_until_ns, 0),
		coalesce(recorder_pid, 0), coalesce(recorder_start_ticks, 0), coalesce(recorder_pid_namespace, 0)`
	noWindowColumns = "0, 0, 0, 0, 0, 0"
)

func (tr *Trace) readSessions(ctx context.Context) error {
	columns := sessionColumns + ", " + windowColumns
	if has, err := tracedb.HasColumn(tr.DB, "rtl_session", "window_start_ns"); err != nil {
		return err
	} else if !has {
		columns = sessionColumns + ", " + noWindowColumns
	}
	known := map[ProcessID]*Process{}
	return tr.Define(ctx, func(r Row) error {
		if len(tr.Sessions) == MostSessions {
			return fmt.Errorf("over %d sessions: %w", MostSessions, ErrImpossible)
		}
		var id ProcessID
		var command string
		s := &Session{}
		err := r.Scan(&s.ID, &id.PID, &id.StartTicks, &command, &id.Host, &s.ToolVersion, &s.BegunNS, &s.ArmedNS, &s.DetachedNS,
			&s.EndedNS, &s.EndReason, &s.MonotonicOffset, &s.RealtimeOffset, &s.WindowStartNS, &s.WindowEndNS, &s.RecordedUntilNS,
			&s.recorder.pid, &s.recorder.startTicks, &s.recorder.pidNamespace)
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
	}, "SELECT "+columns+" FROM rtl_session ORDER BY id")
}

// addStates tells sessions that a recorder is writing from those whose recorder was killed.
// A recorder that writes the file has begun the file's last session.
func (tr *Trace) addStates(inProgress bool) {
	var writes recorder
	if last := len(tr.Sessions) - 1; inProgress && last >= 0 {
		writes = tr.Sessions[last].recorder
	}
	for _, s := range tr.Sessions {
		switch {
		case s.EndedNS > 0:
			s.State = Ended
		case s.EndReason != "":
			s.State = Unwritable
		case writes.pid > 0 && s.recorder == writes:
			s.State = InProgress
		default:
			s.State = CutOff
		}
	}
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
