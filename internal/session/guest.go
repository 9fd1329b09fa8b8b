package session

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/launch"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
)

// guest is a process of a started program that is recorded from before its first kernel on.
type guest struct {
	*member
	identity

	waiting sync.Mutex
	held    []*launch.Waiting
}

// record begins the recording of a process that waits.
func (l *launched) record(who identity, w *launch.Waiting) {
	if err := l.privileges.restore(); err != nil {
		l.ui.Debug("cannot restore privileges: " + failure.FirstLine(err))
	}
	if len(l.members) == 0 {
		_ = l.privileges.drop() // from now on each recording has them for itself
	}
	g := &guest{
		member:   l.newMember(discover.Process{PID: who.pid, StartTicks: who.startTicks}),
		identity: who, held: []*launch.Waiting{w},
	}
	g.reading = g.proceed
	l.add(g.member)
	l.guests[who.pid] = g
	go func() {
		l.attend(g)
		g.proceed()
		l.left <- g
	}()
}

// attend records a process until the window is over, or the process has ended.
func (l *launched) attend(g *guest) {
	arm := func() error {
		if err := l.open(); err != nil {
			return err
		}
		return g.arm(l.ctx)
	}
	if !g.attend(arm) {
		return
	}
	g.armed = true
	l.begin.Do(func() {
		l.startNS = boottimeNS() + uint64(l.o.Schedule.FirstDelay())
		close(l.begun)
	})
	g.collectAndDetach(l.ctx)
}

// hold keeps the process waiting until the records of its next session are read: it has shut its
// runtime down and initialized it again. The session may be active already. To tell, the tool needs
// its privileges, which no recording may need at the moment.
func (g *guest) hold(w *launch.Waiting) {
	g.waiting.Lock()
	g.held = append(g.held, w)
	g.waiting.Unlock()
	if err := g.privileges.restore(); err != nil {
		g.ui.Debug("cannot restore privileges: " + failure.FirstLine(err))
	}
	active := isActive(g.pid)
	if err := g.privileges.drop(); err != nil {
		g.ui.Debug("privileges stay: " + failure.FirstLine(err))
	}
	if active {
		g.proceed()
	}
}

// proceed lets the process go on.
func (g *guest) proceed() {
	g.waiting.Lock()
	defer g.waiting.Unlock()
	for _, w := range g.held {
		w.Continue()
	}
	g.held = nil
}

// isActive reports whether a process has an active session, or whether that cannot be told.
func isActive(pid int) bool {
	t, err := target.Open(pid)
	if err != nil {
		return true
	}
	defer t.Close()
	c, err := resident.Open(t)
	if err != nil {
		return true
	}
	defer c.Close()
	return c.Snapshot().State.IsRecording()
}

// complete completes the trace, and fills in the result.
func (l *launched) complete() {
	several := l.sumUp()
	l.result.Flight = l.o.Flight
	if l.db == nil {
		return
	}
	if err := l.privileges.restore(); err != nil {
		l.ui.Debug("cannot restore privileges: " + failure.FirstLine(err))
	}
	if l.count(func(m *member) bool { return m.armed }) == 0 {
		if err := l.db.Discard(); err != nil {
			l.report(failure.Explain("trace", l.child.PID, err, failure.Untouched))
		}
		return
	}
	if err := l.finish(several); err != nil {
		f := failure.Explain("record", l.child.PID, err, "detached")
		f.What = "the trace is not complete: " + failure.FirstLine(err)
		l.report(f)
	}
	l.result.Path = l.db.Path() // a complete trace may have replaced another one
}

// finish completes the file. Several processes have the window in common.
func (l *launched) finish(several bool) error {
	var err error
	if several {
		l.endNS = cmp.Or(l.endNS, boottimeNS())
		err = errors.Join(l.db.BeginCommon(l.startNS), l.db.EndCommon(l.endNS), l.db.OrderGPUs(), l.db.Targets(l.outcomes()))
	}
	return errors.Join(err, l.db.Close(), testpoint.Pass(testpoint.Finished))
}

// sumUp fills in the result from the members, and reports whether they are several processes.
func (l *launched) sumUp() (several bool) {
	var codes []failure.ExitCode
	processes := map[identity]bool{}
	for _, m := range l.members {
		who := identity{m.PID, m.StartTicks}
		switch {
		case m.failure != nil && errors.Is(m.failure, context.Canceled):
		case m.failure != nil:
			l.result.Failures = append(l.result.Failures, m.failure)
			processes[who] = true
		default:
			if !processes[who] {
				l.result.Recorded = append(l.result.Recorded, m.PID)
			}
			codes = append(codes, m.exit)
			processes[who] = true
		}
	}
	if len(codes) > 0 {
		l.result.Code = failure.CombineExitCodes(codes)
	}
	l.result.NoTimes, l.result.Left, l.result.Missing = l.noTimes(), l.group.left(), l.missing()
	l.result.Without, l.result.Early = l.without(), l.endedEarly()
	return len(processes) > 1
}
