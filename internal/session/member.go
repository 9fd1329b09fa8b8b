package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// A member is one of the recordings of a group.
type member struct {
	*recording
	discover.Process
	group *group
	ui    *memberUI

	mu      sync.Mutex
	decided bool
	result  // of whoever decides first; read when it is over, or abandoned

	why       string // of an early end
	armed     bool
	abandoned atomic.Bool   // a thread of ours hangs: nothing of it is touched any more
	holder    *member       // in whose target, if it is abandoned
	done      chan struct{} // closed when nothing works on it any more
}

// A result is how a member's recording ended.
type result struct {
	failure *failure.Error // nil: it went as it should
	outcome tracedb.Outcome
	exit    failure.ExitCode
	endNS   uint64 // its end, where that came before the window's
}

// decide says whether nobody has decided yet: who is abandoned may come to an end
// all the same.
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
	o.PID, o.Duration, o.MaxSizeBytes = c.PID, 0, 0 // the window's end is the group's affair
	g.privileges.needed++
	m.recording = newRecording(o, g.skip, m.ui, g.privileges)
	m.Library, m.Build = g.Library, g.Build
	m.common = g.ending
	return m
}

func (m *member) isWell() bool { return m.failure == nil }

// isOver: nothing more comes from it.
func (m *member) isOver() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// attempt does a part of what comes before the recording. Who fails in it is out.
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

// stall is why nothing of it is waited for any more; nil: it is. A thread of its own
// hangs, or another's hangs in a stop: the kernel ends this process soon, and the
// trace with it unless that is complete by then.
func (m *member) stall(limit time.Duration) *failure.Error {
	if m.hanging() > limit {
		m.holder = m
		return watchdog.Failure(m.PID)
	}
	for _, other := range m.group.members {
		if other.tracer.Busy() > limit {
			m.holder = other
			return m.heldUp(other, watchdog.LeftAlone)
		}
	}
	return nil
}

func (m *member) hangs() bool { return m.hanging() > watchdog.Limit }

// abandon: what hangs may go on some time, and attach. A payload without our heartbeat
// detaches by itself.
func (m *member) abandon() {
	m.abandoned.Store(true)
	m.unattended.Store(true)
	m.guard.Revoke()
}

// look returns the rank that it shows.
func (m *member) look() (rank *int, err error) {
	err = m.hold(m.CheckProcess)
	if err == nil && m.StartTicks != 0 && m.StartTicks != m.Target.StartTicks {
		err = fmt.Errorf("pid %d: %w", m.PID, target.ErrGone) // its number is another's
	}
	if err != nil {
		return nil, failure.Explain("trace", m.PID, err, failure.Untouched)
	}
	return discover.RankOf(m.Target), testpoint.Pass(testpoint.Looked)
}

// introduce notes who it is that was looked at.
func (m *member) introduce(rank *int) {
	m.rank = rank
	m.Command = m.Facts.Comm
	m.StartTicks = m.Target.StartTicks
}

func (m *member) arm(ctx context.Context) error {
	m.db = m.group.db
	if err := m.attach(ctx); err != nil {
		if m.control != nil {
			m.describeGrace()
		}
		return failure.Explain("attach to", m.PID, err, m.leftAs())
	}
	m.describeAttach()
	return nil
}

// collectAndDetach records until the window is over, and says what became of it.
func (m *member) collectAndDetach(window context.Context) {
	defer m.letGo()
	collectErr := testpoint.Pass(testpoint.Attached)
	if collectErr == nil {
		collectErr = m.collectAll(window)
	}
	endNS := uint64(0)
	if window.Err() == nil {
		endNS = boottimeNS()
	}
	detachErr := m.detach()
	m.describeBroken()
	collectErr = errors.Join(collectErr, m.errIfTakenOver())
	switch {
	case detachErr != nil:
		m.fail(tracedb.OutcomeFailed, m.remainsFailure(detachErr))
	case collectErr != nil:
		m.fail(tracedb.OutcomeFailed, m.traceFailure(collectErr))
	default:
		m.conclude(m.code(), endNS)
	}
}

func (m *member) conclude(code failure.ExitCode, endNS uint64) {
	m.decide(result{outcome: outcomeOf(code, m.noTimes), exit: code, endNS: endNS})
}

// fail tells the user, unless it was he who ended the attaches, and nothing remains.
func (m *member) fail(outcome tracedb.Outcome, f *failure.Error) {
	first := m.decide(result{failure: f, outcome: outcome, exit: f.Code})
	if first && (f.Code == failure.Remains || !errors.Is(f, context.Canceled)) {
		m.group.ui.Failed(f)
	}
}

// stallGrace is what the others get to end in where one hangs: a thread that hangs
// in a stop has the kernel end this process at ptrace.HoldLimit.
const stallGrace = 3 * time.Second

// wait returns when nothing works on it any more, or when what does hangs.
func (m *member) wait() {
	tick := time.NewTicker(watchdog.Period)
	defer tick.Stop()
	for {
		select {
		case <-m.done:
			return
		case <-tick.C:
		}
		if f := m.stall(watchdog.Limit + stallGrace); f != nil {
			m.abandon()
			m.fail(tracedb.OutcomeFailed, f)
			return
		}
	}
}

// letGo ends what there is between us and the target: who asks for a detach waits
// for that.
func (m *member) letGo() {
	if !m.abandoned.Load() {
		m.dropPrivileges()
		m.release()
	}
	close(m.done)
}

// stalled is the member in whose memory a thread of ours hangs.
func (g *group) stalled() *member {
	for _, m := range g.members {
		if m.abandoned.Load() {
			return m.holder
		}
	}
	return nil
}

func (m *member) heldUp(by *member, left string) *failure.Error {
	return &failure.Error{
		What:   fmt.Sprintf("cannot trace pid %d: pid %d holds this tool up", m.PID, by.PID),
		Cause:  fmt.Sprintf("the memory of pid %d cannot be read, and a thread of this tool waits for it", by.PID),
		Fix:    fmt.Sprintf("run this again without pid %d", by.PID),
		Target: left, Code: failure.Failed, Err: watchdog.ErrStalled,
	}
}

// A memberUI passes on what concerns one member only, and keeps the rest for the
// group.
type memberUI struct {
	member *member

	mu       sync.Mutex
	progress collector.Progress
	paused   time.Duration
	threads  int // that were paused
}

func (u *memberUI) latest() collector.Progress {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.progress
}

func (u *memberUI) who() string { return fmt.Sprintf("pid %d: ", u.member.PID) }

func (u *memberUI) Preflight(string) {}

func (u *memberUI) Attached(how string, threads int, paused time.Duration) {
	u.paused, u.threads = paused, threads
	u.Debug(fmt.Sprintf("%s, %s paused for %s in all", how, humanize.Things(threads, "thread"), humanize.Duration(paused)))
}

func (u *memberUI) Recording(_, _ time.Duration, p collector.Progress, _ uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.progress = p
}

func (u *memberUI) Detaching(why string, _ bool) {
	if why != tracedb.EndInterrupted { // that is the group's way to end the window
		u.member.why = why
		u.Debug("detaching: " + why)
	}
}

func (u *memberUI) Detached(how string) { u.Debug("detached: " + how) }

func (u *memberUI) Warn(text string) { u.member.group.ui.Warn(u.who() + text) }

func (u *memberUI) Debug(text string) { u.member.group.ui.Debug(u.who() + text) }
