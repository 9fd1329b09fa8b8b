package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

const (
	joinTries  = 5
	joinPeriod = time.Second // between two tries: the worker may not have initialized its runtime yet
	mostJoins  = 1 << 10     // of a recording, which a worker that is restarted again and again must not fill
)

// joins attaches to late workers while the common window is open, to one after the other. The group's goroutine owns it, and the
// watcher's goroutine calls note.
type joins struct {
	group    *group
	window   context.Context // done: the window is over
	current  *member         // the tool is attaching to it; nil: to none
	attached chan bool       // whether the attach to current has succeeded

	mu      sync.Mutex
	waiting []*joining // not attached to yet
	taken   int        // late workers that were put into waiting, once each
}

// joining is a late worker to which the tool is going to attach.
type joining struct {
	discover.LateWorker
	tries int
	next  time.Time // of the next try
}

func newJoins(g *group, window context.Context) *joins {
	return &joins{group: g, window: window, attached: make(chan bool, 1)}
}

// note takes a late worker, or warns that it is not recorded. Any goroutine may call it.
func (j *joins) note(late discover.LateWorker) {
	why := j.obstacle(late)
	if why != "" || j.window.Err() != nil {
		j.group.ui.Warn(late.Warning(why))
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.taken++
	j.waiting = append(j.waiting, &joining{LateWorker: late})
}

// obstacle returns why a late worker cannot be recorded; "": it can.
func (j *joins) obstacle(late discover.LateWorker) string {
	if len(j.group.o.Schedule) > 0 {
		return "the windows of a schedule begin with the recording"
	}
	j.mu.Lock()
	taken := j.taken
	j.mu.Unlock()
	if taken >= mostJoins {
		return humanize.Things(mostJoins, "worker") + " have joined it"
	}
	return j.group.choice.Obstacle(j.group.selection, late)
}

// step attaches to the next late worker that is due.
func (j *joins) step() {
	if j.current != nil || watchdog.Hanging() > watchdog.Limit {
		return
	}
	j.mu.Lock()
	i := slices.IndexFunc(j.waiting, func(w *joining) bool { return !time.Now().Before(w.next) })
	var w *joining
	if i >= 0 {
		w = j.waiting[i]
		j.waiting = slices.Delete(j.waiting, i, i+1)
	}
	j.mu.Unlock()
	if w != nil {
		j.begin(w)
	}
}

// begin attaches to a late worker, in a goroutine of its own.
func (j *joins) begin(w *joining) {
	g := j.group
	if err := g.privileges.restore(); err != nil {
		g.ui.Debug("cannot restore privileges: " + failure.FirstLine(err))
	}
	w.tries++
	m := g.newMember(w.Process)
	m.late, m.joined, m.o.MeasureCost = w, true, 0
	j.current = m
	g.add(m)
	go func() {
		armed := m.attend(func() error { return m.arm(j.window) })
		if armed {
			m.joinedNS.Store(max(boottimeNS(), g.startNS))
		}
		j.attached <- armed
		if armed {
			m.collectAndDetach(j.window)
		}
	}()
}

// conclude notes how the attach to the current worker went. A worker that could not be attached to is tried again.
func (j *joins) conclude(armed bool) {
	m := j.current
	j.current = nil
	switch {
	case armed:
		m.armed = true
		if j.window.Err() != nil {
			return // it is detached already
		}
		j.group.watcher.Track(m.tracked(m.Process))
		j.group.ui.Joined(m.late.Name() + " " + m.late.How() + ": recorded from now on; " + m.ui.describePause())
	case m.late.tries < joinTries && m.canTryAgain():
		j.group.ui.Debug(m.late.Name() + ": " + m.absence() + ": tried again")
		j.group.remove(m)
		m.late.next = time.Now().Add(joinPeriod)
		j.mu.Lock()
		j.waiting = append(j.waiting, m.late)
		j.mu.Unlock()
	case m.isAbsent() || m.failure == nil:
		j.group.ui.Warn(m.late.Warning(m.absence()))
	}
}

// isBusy reports whether late workers wait to be attached to, and will be.
func (j *joins) isBusy() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.current != nil || len(j.waiting) > 0 && watchdog.Hanging() <= watchdog.Limit
}

// end returns when no attach is under way any more, after the end of the window. It warns of the workers that were not attached to.
func (j *joins) end() {
	if m := j.current; m != nil {
		m.wait()
		j.conclude(!m.abandoned.Load() && <-j.attached)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range j.waiting {
		j.group.ui.Warn(w.Warning(""))
	}
}

// canTryAgain reports whether another attach to a late worker may succeed.
func (m *member) canTryAgain() bool {
	return !m.abandoned.Load() && m.exit != failure.Remains && !errors.Is(m.failure, context.Canceled) && m.group.stalled() == nil
}

// absence returns why a late worker is not in the trace; "": the window was over.
func (m *member) absence() string {
	if m.failure == nil || errors.Is(m.failure, context.Canceled) {
		return ""
	}
	return m.failure.What + ": " + m.failure.Cause
}

// hasJoined reports whether m is a late worker to which the tool has attached.
func (m *member) hasJoined() bool { return m.joinedNS.Load() != 0 }

// isAbsent reports whether m is a late worker that could not be attached to, and in which nothing remains.
func (m *member) isAbsent() bool {
	return m.late != nil && !m.hasJoined() && m.failure != nil && m.exit != failure.Remains
}

// remove removes a member that has failed.
func (g *group) remove(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = slices.DeleteFunc(slices.Clone(g.members), func(other *member) bool { return other == m })
}

// asRoot calls do with the tool's privileges, if they can be restored.
func (g *group) asRoot(do func()) {
	if watchdog.Hanging() > watchdog.Limit { // a hanging thread would not take part in the change
		do()
		return
	}
	if err := g.privileges.restore(); err != nil {
		g.ui.Debug("cannot restore privileges: " + failure.FirstLine(err))
	}
	do()
	if err := g.privileges.drop(); err != nil {
		g.ui.Debug("privileges stay: " + failure.FirstLine(err))
	}
}

// absent returns the late workers that are not recorded, for the trace.
func (g *group) absent() (list []tracedb.Target) {
	for _, late := range g.lateWorkers {
		i := slices.IndexFunc(g.members, func(m *member) bool { return m.PID == late.PID && m.StartTicks == late.StartTicks })
		switch {
		case i < 0:
			list = append(list, late.Target(g.joins.obstacle(late)))
		case g.members[i].isAbsent():
			list = append(list, late.Target(g.members[i].absence()))
		}
	}
	return list
}

// describePause returns the threads that the attach has paused, as text.
func (u *memberUI) describePause() string {
	switch u.threads {
	case 0:
		return "nothing paused"
	case 1:
		return "one thread paused for " + humanize.Duration(u.paused)
	}
	return humanize.Things(u.threads, "thread") + " paused singly, for " + humanize.Duration(u.paused) + " together"
}
