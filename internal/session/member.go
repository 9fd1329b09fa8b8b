package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// member is one of the recordings of a group.
type member struct {
	*recording
	discover.Process
	group *group
	ui    *memberUI

	mu      sync.Mutex
	decided bool
	result  // the first decision; read when the member is over or abandoned

	late      *joining // nil: it is one of those with which the recording began
	why       string   // of an early end
	armed     bool
	joinedNS  atomic.Uint64 // when a late worker was attached to; 0: it was not
	abandoned atomic.Bool   // a thread of the tool hangs: do not touch this member any more
	holder    *member       // if abandoned: the member in whose target the thread hangs
	done      chan struct{} // closed when no goroutine works on it any more
}

// result is how a member's recording ended.
type result struct {
	failure *failure.Error // nil: success
	outcome tracedb.Outcome
	exit    failure.ExitCode
	endNS   uint64 // its end, if that was before the window's end
}

// decide stores a result, and reports whether it is the first. An abandoned member may still
// end later.
func (m *member) decide(v result) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.decided {
		return false
	}
	m.decided, m.result = true, v
	return true
}

func (g *group) newMember(c discover.Process) *member {
	m := &member{Process: c, group: g, done: make(chan struct{})}
	m.ui = &memberUI{member: m}
	o := g.o
	o.PID, o.Duration, o.MaxSizeBytes = c.PID, 0, 0 // the group ends the window
	m.recording = newRecording(o, g.skip, m.ui, g.privileges)
	m.Library, m.Build = g.Library, g.Build
	m.declared.common, m.declared.begun = g.ending, g.begin.get
	return m
}

func (m *member) isWell() bool { return m.failure == nil }

// isOver reports whether the member has ended.
func (m *member) isOver() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// isDetachedByOther reports whether the member has ended because of rtl-attach detach.
func (m *member) isDetachedByOther() bool { return m.isOver() && m.why == tracedb.EndRequested }

// isScheduleOver reports whether the member has ended because all windows of its schedule are over.
func (m *member) isScheduleOver() bool { return m.isOver() && m.endedBySchedule() }

// attempt runs one part of the preparation. A member that fails in it is not recorded.
func (m *member) attempt(outcome tracedb.Outcome, part func() error) bool {
	if holder := m.group.stalled(); holder != nil {
		m.fail(outcome, m.heldUp(holder, failure.Untouched))
		m.letGo()
		return false
	}
	_, err := watchdog.Watch(func() *failure.Error { return m.stall(watchdog.Limit) }, func() (struct{}, error) { return struct{}{}, part() })
	if err == nil {
		return true
	}
	if errors.Is(err, watchdog.ErrStalled) {
		m.abandon()
	}
	m.fail(outcome, failure.Explain("trace", m.PID, err, failure.Untouched))
	m.letGo()
	return false
}

// look opens and checks the process, and returns its rank.
func (m *member) look() (rank *int, err error) {
	err = m.hold(m.CheckProcess)
	if err == nil && m.StartTicks != 0 && m.StartTicks != m.Target.StartTicks {
		err = fmt.Errorf("pid %d: %w", m.PID, target.ErrGone) // the pid belongs to another process
	}
	if err != nil {
		return nil, failure.Explain("trace", m.PID, err, failure.Untouched)
	}
	return discover.RankOf(m.Target), testpoint.Pass(testpoint.Looked)
}

// introduce notes what look has found about the process.
func (m *member) introduce(rank *int) {
	m.mu.Lock() // a flight recorder may be naming the processes of a trace
	defer m.mu.Unlock()
	m.rank = rank
	m.Command = m.Facts.Comm
	m.StartTicks = m.Target.StartTicks
}

// attend looks at the process and attaches to it by arm, and reports whether that succeeded. If not, the member is over.
func (m *member) attend(arm func() error) bool {
	var rank *int
	look := func() (err error) { rank, err = m.look(); return err }
	if !m.attempt(tracedb.OutcomeRefused, look) {
		return false
	}
	m.introduce(rank)
	return m.attempt(tracedb.OutcomeFailed, arm)
}

func (m *member) arm(ctx context.Context) error {
	m.trace.db, m.flight = m.group.db, m.group.flight
	if err := m.attach(ctx); err != nil {
		if m.link.control != nil {
			m.describeGrace()
		}
		return failure.Explain("attach to", m.PID, err, m.leftAs())
	}
	m.describeAttach()
	return nil
}

// collectAndDetach records until the window is over, detaches, and decides the result.
func (m *member) collectAndDetach(window context.Context) {
	defer m.letGo()
	collectErr := testpoint.Pass(testpoint.Attached)
	if collectErr == nil {
		collectErr = m.collectAll(window)
	}
	endNS := uint64(0)
	if window.Err() == nil && (m.reading == nil || m.why != "") { // a started program's own end is not early
		endNS = boottimeNS()
	}
	detachErr := m.detach()
	m.describeBroken()
	collectErr = errors.Join(collectErr, m.errIfTakenOver(), m.finishObserving())
	if detachErr == nil && collectErr == nil {
		m.restorePrivileges()
		collectErr = m.measureAfter()
	}
	switch {
	case detachErr != nil:
		m.fail(tracedb.OutcomeFailed, m.remainsFailure(detachErr))
	case collectErr != nil:
		m.fail(tracedb.OutcomeFailed, m.traceFailure(collectErr))
	default:
		if m.reading != nil && !m.phase.detached {
			m.tally.early = ""
		}
		m.conclude(m.code(), endNS)
	}
}

func (m *member) conclude(code failure.ExitCode, endNS uint64) {
	outcome := outcomeOf(code, m.tally.noTimes+m.tally.left)
	if outcome == tracedb.OutcomeRecorded && m.late != nil {
		outcome = tracedb.OutcomeJoined
	}
	m.decide(result{outcome: outcome, exit: code, endNS: endNS})
}

// fail reports the failure, unless nothing remains, and the user has interrupted the attaches or the group warns of the late worker that could not be attached to.
func (m *member) fail(outcome tracedb.Outcome, f *failure.Error) {
	first := m.decide(result{failure: f, outcome: outcome, exit: f.Code})
	if first && (f.Code == failure.Remains || (m.late == nil || m.hasJoined()) && !errors.Is(f, context.Canceled)) {
		m.group.ui.Failed(f)
	}
}

// letGo releases the target. A tool that has requested a detach waits for this.
func (m *member) letGo() {
	if !m.abandoned.Load() {
		m.dropPrivileges()
		m.release()
	}
	close(m.done)
}
