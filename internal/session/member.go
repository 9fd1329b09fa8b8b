package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// A member is one of the recordings of a group.
type member struct {
	*recording
	candidate
	group *group
	ui    *memberUI

	failure   *Failure // nil: it went as it should
	fate      tracedb.Fate
	exit      ExitCode
	endNS     uint64 // its end, where that came before the window's
	why       string // of an early end
	armed     bool
	rank      *int          // nil: it shows none
	abandoned atomic.Bool   // a thread of ours hangs in its memory: nothing of it is touched any more
	done      chan struct{} // closed when nothing works on it any more
}

func (g *group) newMember(c candidate) *member {
	m := &member{candidate: c, group: g, done: make(chan struct{})}
	m.ui = &memberUI{member: m}
	o := g.o
	o.PID, o.Duration, o.MaxSizeBytes = c.pid, 0, 0 // the window's end is the group's affair
	g.rights.needed++
	m.recording = newRecording(o, g.skip, m.ui, g.rights)
	m.build = g.build
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
func (m *member) attempt(fate tracedb.Fate, part func() error) bool {
	if holder := m.group.stalled(); holder != nil {
		m.fail(fate, m.heldUp(holder))
		m.letGo()
		return false
	}
	_, err := unlessStalled(m.pid, func() (struct{}, error) { return struct{}{}, part() })
	if err == nil {
		return true
	}
	m.abandoned.Store(errors.Is(err, errStalled))
	m.fail(fate, explain("trace", m.pid, err, untouched))
	m.letGo()
	return false
}

func (m *member) look() error {
	if err := m.hold(processSteps()); err != nil {
		return explain("trace", m.pid, err, untouched)
	}
	m.command = m.facts.Comm
	m.startTicks = m.target.StartTicks
	global, local := ranksOf(m.target)
	if m.rank = global; global == nil {
		m.rank = local
	}
	return at(PointLooked)
}

func (m *member) arm(ctx context.Context) error {
	m.db = m.group.db
	if err := m.attach(ctx); err != nil {
		if m.control != nil {
			m.describeGrace()
		}
		return explain("attach to", m.pid, err, m.leftAs())
	}
	m.armed = true
	m.describeAttach()
	return nil
}

// collectAndDetach records until the window is over, and says what became of it.
func (m *member) collectAndDetach(window context.Context) {
	defer m.letGo()
	collectErr := at(PointAttached)
	if collectErr == nil {
		collectErr = m.collectAll(window)
	}
	if window.Err() == nil {
		m.endNS = boottimeNS()
	}
	detachErr := m.detach()
	switch {
	case detachErr != nil:
		m.fail(tracedb.FateFailed, m.remainsFailure(detachErr))
	case collectErr != nil:
		m.fail(tracedb.FateFailed, m.traceFailure(collectErr))
	default:
		m.conclude(m.code())
	}
}

func (m *member) conclude(code ExitCode) {
	m.exit = code
	switch {
	case code == TargetExited:
		m.fate = tracedb.FateExited
	case code == NothingSeen && m.noTimes == 0:
		m.fate = tracedb.FateIdle
	default:
		m.fate = tracedb.FateRecorded
	}
}

// fail tells the user, unless it was he who ended the attaches.
func (m *member) fail(fate tracedb.Fate, f *Failure) {
	m.failure, m.fate, m.exit = f, fate, f.Code
	if !errors.Is(f, context.Canceled) {
		m.group.ui.Failed(f)
	}
}

// stallGrace is what the others get to end in where one hangs: a thread that hangs
// in a stop has the kernel end this process at ptrace.HoldLimit.
const stallGrace = 3 * time.Second

// wait returns when nothing works on it any more, or when what does hangs.
func (m *member) wait() {
	tick := time.NewTicker(stallPeriod)
	defer tick.Stop()
	for {
		select {
		case <-m.done:
			return
		case <-tick.C:
		}
		if hanging() > StallLimit+stallGrace {
			m.abandoned.Store(true)
			m.fail(tracedb.FateFailed, stallFailure(m.pid))
			return
		}
	}
}

// letGo ends what there is between us and the target: who asks for a detach waits
// for that.
func (m *member) letGo() {
	if !m.abandoned.Load() {
		m.lower()
		m.release()
	}
	close(m.done)
}

// stalled is the member in whose memory a thread of ours hangs.
func (g *group) stalled() *member {
	for _, m := range g.members {
		if m.abandoned.Load() {
			return m
		}
	}
	return nil
}

func (m *member) heldUp(by *member) *Failure {
	return &Failure{
		What:   fmt.Sprintf("cannot trace pid %d: pid %d holds this tool up", m.pid, by.pid),
		Cause:  fmt.Sprintf("the memory of pid %d cannot be read, and a thread of this tool waits for it", by.pid),
		Fix:    fmt.Sprintf("run this again without pid %d", by.pid),
		Target: untouched, Code: Failed, Err: errStalled,
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

func (u *memberUI) who() string { return fmt.Sprintf("pid %d: ", u.member.pid) }

func (u *memberUI) Preflight(string) {}

func (u *memberUI) Attached(how string, threads int, paused time.Duration) {
	u.paused, u.threads = paused, threads
	u.Debug(fmt.Sprintf("%s, %d threads paused for %v in all", how, threads, paused))
}

func (u *memberUI) Recording(_, _ time.Duration, p collector.Progress) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.progress = p
}

func (u *memberUI) Detaching(why string, _ bool) {
	if why != interrupted { // that is the group's way to end the window
		u.member.why = why
		u.Debug("detaching: " + why)
	}
}

func (u *memberUI) Detached(how string) { u.Debug("detached: " + how) }

func (u *memberUI) Warn(text string) { u.member.group.ui.Warn(u.who() + text) }

func (u *memberUI) Debug(text string) { u.member.group.ui.Debug(u.who() + text) }
