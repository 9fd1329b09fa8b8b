package session

import (
	"fmt"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// stall returns why the group must not wait for the member any more; nil: it must. Either a
// thread of the member hangs, or another member's thread hangs in a stop: then the kernel
// soon kills this process, and the trace must be complete before.
func (m *member) stall(limit time.Duration) *failure.Error {
	if m.hanging() > limit {
		m.holder = m
		return watchdog.Failure(m.PID)
	}
	for _, other := range m.group.everyone() {
		if other.tracer.Busy() > limit {
			m.holder = other
			return m.heldUp(other, watchdog.LeftAlone)
		}
	}
	return nil
}

func (m *member) hangs() bool { return m.hanging() > watchdog.Limit }

// abandon gives a member up. Its hanging thread may continue some time, and attach. Without
// a heartbeat the payload then detaches by itself.
func (m *member) abandon() {
	m.abandoned.Store(true)
	m.link.unattended.Store(true)
	m.trace.guard.Revoke()
}

// stallGrace is the time in which the other members must end if one hangs. If a thread hangs
// in a stop, the kernel kills this process after ptrace.HoldLimit.
const stallGrace = 3 * time.Second

// wait returns when no goroutine works on the member any more, or when one hangs.
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

// stalled returns the member in whose target a thread of the tool hangs.
func (g *group) stalled() *member {
	for _, m := range g.everyone() {
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
