package traceread

import (
	"cmp"
	"context"
	"fmt"

	"github.com/rtl-attach/rtl-attach/internal/filter"
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
	EndedNS         int64  // the recorder has written the final accounts; 0: never, or not yet
	EndReason       string // "": not yet, or the recorder was killed
	WindowStartNS   int64  // the declared window; use FromNS and UntilNS, which work for all formats
	WindowEndNS     int64
	RecordedUntilNS int64 // every kernel that ended before it is in the trace, or counted as lost or untimed
	MonotonicOffset int64 // CLOCK_MONOTONIC - CLOCK_BOOTTIME at the begin
	RealtimeOffset  int64 // CLOCK_REALTIME - CLOCK_BOOTTIME at the begin
	Counters        Counters
	Kinds           map[string]KindAccount // by the kinds' names; only final accounts
	Unavailable     []tracedb.Unavailable  // kinds that were asked for and could not be recorded
	QueuesRecorded  int64                  // queues with a window
	ClaimsKnown     int64                  // sum of RawBefore in its queues' accounts
	Filters         []filter.Setting       // of the recording
	Scheduled       bool                   // a window of a schedule
	RecordsLost     bool                   // some of its records are missing

	recorder recorder
}

// recorder is the process that wrote a session; zero in files of format 1.
type recorder struct{ pid, startTicks, pidNamespace int64 }

// State is the state of a session's recorder.
type State int

// The states of a session.
const (
	Ended      State = iota // the recorder has written the final accounts
	InProgress              // a recorder is writing the session
	CutOff                  // the recorder was killed
	Unwritable              // a write to the trace failed; EndReason says why
)

// Process is a process that was recorded, in one or several sessions. A pid alone does not
// identify it: PIDs are used again, and a file may come from several hosts.
type Process struct {
	ID       ProcessID
	Rank     *int64 // set by its launcher; nil: not known
	Command  string
	Sessions []*Session
	IsTarget bool // it is one of the file's Targets
}

// ProcessID distinguishes processes that have the same pid.
type ProcessID struct {
	Host            string
	PID, StartTicks int64
}

// Title returns the process's name for users.
func (p *Process) Title() string {
	if p.Rank != nil {
		return fmt.Sprintf("rank %d %s", *p.Rank, p.Command)
	}
	return p.Command
}

// Settled reports whether the recorder has written the final accounts of all queues.
func (s *Session) Settled() bool { return s.State == Ended }

// Unfinished returns why the session has no final accounts; "" if it has them.
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

// EndedAsAsked reports whether the user, or the requested duration, ended the session.
func (s *Session) EndedAsAsked() bool {
	switch s.EndReason {
	case tracedb.EndElapsed, tracedb.EndInterrupted, tracedb.EndRequested, tracedb.EndStopped, tracedb.EndTriggered, tracedb.EndPeriod, tracedb.EndSchedule, "detached": // the last one in format 1
		return s.Settled()
	}
	return false
}

// FromNS returns the begin of the declared window: the time at which hooks became active or, if
// that is not known (HasBegin), at which the recorder was ready.
func (s *Session) FromNS() int64 { return cmp.Or(s.WindowStartNS, s.ArmedNS, s.BegunNS) }

// HasBegin reports whether the file has the begin of the declared window.
func (s *Session) HasBegin() bool { return s.WindowStartNS > 0 || s.ArmedNS > 0 }

// UntilNS returns the time up to which the trace is complete in the declared window; 0: not
// known. In format 1 it is the removal of hooks or, if the target ended before, the recorder's
// end.
func (s *Session) UntilNS() int64 {
	switch {
	case s.Settled():
		return cmp.Or(s.WindowEndNS, s.DetachedNS, s.EndedNS)
	case s.WindowEndNS > 0:
		return min(s.WindowEndNS, s.RecordedUntilNS)
	}
	return s.RecordedUntilNS
}

// UnseenClaims returns how many of the claims that the payload counted are in no account of the
// session's queues.
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

// addStates distinguishes sessions that a recorder is still writing from sessions whose recorder
// was killed. A live recorder has begun the file's last session.
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

// ZeroNS returns the begin of the first session's window: the zero of the times that users give
// and read.
func (tr *Trace) ZeroNS() (zeroNS int64) {
	for i, s := range tr.Sessions {
		if at := s.FromNS(); i == 0 || at < zeroNS {
			zeroNS = at
		}
	}
	return max(0, min(zeroNS, LatestNS/2))
}
