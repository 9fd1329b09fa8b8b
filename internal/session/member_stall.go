package session

import (
	"fmt"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

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
	m.link.unattended.Store(true)
	m.trace.guard.Revoke()
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
