package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/launch"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// Launched is the result of the recording of a program that the tool has started.
type Launched struct {
	Outcome
	Recorded   []int            // processes
	Unrecorded []int            // processes that used a GPU while too many others were recorded
	LeftOut    []int            // processes whose rank is not selected
	Failures   []*failure.Error // of processes that could not be recorded; reported already
}

// mostGuests limits how many processes are recorded at a time, and so the tool's memory.
const mostGuests = 256

// RecordLaunched records the processes of a program, each from before its first kernel on, into one
// trace. Its window is from the first attach to the program's end. A flight recorder has traces of its triggers
// instead. RecordLaunched returns when the program has ended.
func RecordLaunched(o Options, c *launch.Child, ui GroupObserver) Launched {
	defer func() {
		if err := c.Close(); err != nil {
			ui.Warn("the payload's file may be left: " + failure.FirstLine(err))
		}
	}()
	rights := newPrivileges(o)
	defer rights.close()
	l := &launched{
		group: group{Preflight: preflight.New(o.Request), o: o, choice: &discover.Choice{}, ui: ui, privileges: rights},
		child: c, guests: map[int]*guest{}, released: map[identity]bool{}, left: make(chan *guest), begun: make(chan struct{}),
	}
	l.ctx, l.endWindow = context.WithCancel(context.Background())
	defer l.endWindow()
	l.o.PID = c.PID
	l.o.Commands.join(len(l.o.Schedule) > 0)
	host := l.flightHost()
	host.Joining, host.Targets = true, l.flightTargets
	if l.flight = newFlight(l.o, host, 1); l.flight != nil {
		defer l.flight.Close()
	}
	if err := errors.Join(l.CheckMachine(), testpoint.Pass(testpoint.Launched)); err != nil {
		l.over = true
		l.report(failure.Explain("record", c.PID, err, failure.Untouched))
	}
	l.run()
	l.complete()
	return l.result
}

// launched is a group whose members come and go.
type launched struct {
	group
	child     *launch.Child
	guests    map[int]*guest    // by pid: those that are recorded now
	next      []*launch.Waiting // whose pid is another process's, which is being recorded
	released  map[identity]bool // the user has ended their recordings
	left      chan *guest
	ctx       context.Context // done: the window is over
	endWindow context.CancelFunc

	opening sync.Once // of the trace
	openErr error
	begin   sync.Once     // of the window
	begun   chan struct{} // closed when startNS is set

	over   bool // nothing more is recorded
	ended  bool // the program has ended
	result Launched
}

// identity tells processes with the same pid from each other.
type identity struct {
	pid        int
	startTicks uint64
}

func identify(pid int) identity {
	ticks, _ := target.StartTicks(pid) // 0: it has ended
	return identity{pid, ticks}
}

func (i identity) lives() bool { return target.Lives(i.pid, i.startTicks) }

// run returns when the program has ended, and all recordings are complete.
func (l *launched) run() {
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	begun, done, stopped := l.begun, l.child.Done, l.o.Commands.stop()
	var elapsed <-chan time.Time
	for !l.ended || len(l.guests) > 0 {
		select {
		case w := <-l.child.Waiting:
			l.take(w)
		case g := <-l.left:
			l.conclude(g)
		case <-begun:
			begun = nil
			if l.o.Duration > 0 {
				elapsed = time.After(time.Duration(l.startNS) + l.o.Duration - time.Duration(boottimeNS()))
			}
		case <-elapsed:
			l.close(tracedb.EndElapsed)
		case <-stopped:
			stopped = nil
			l.close(tracedb.EndStopped)
		case <-done:
			done = nil
			l.endWithProgram()
		case <-tick.C:
			l.look()
		}
	}
}

// take decides on a process that waits.
func (l *launched) take(w *launch.Waiting) {
	who := identify(w.PID)
	g := l.guests[w.PID]
	switch {
	case l.over || l.released[who] || !target.Lives(w.PID, 0):
		w.Continue()
	case !l.isSelected(w.PID):
		l.result.LeftOut = append(l.result.LeftOut, w.PID)
		w.Continue()
	case g != nil && g.identity.lives():
		g.hold(w)
	case g != nil:
		l.next = append(l.next, w)
	case len(l.guests) == mostGuests || watchdog.Hanging() > watchdog.Limit:
		l.result.Unrecorded = append(l.result.Unrecorded, w.PID)
		w.Continue()
	default:
		l.record(who, w)
	}
}

// isSelected reports whether a process has a selected rank.
func (l *launched) isSelected(pid int) bool {
	if !l.o.Filter.OfRanks() {
		return true
	}
	if err := l.privileges.restore(); err != nil {
		l.ui.Debug("cannot restore privileges: " + failure.FirstLine(err))
	}
	rank := discover.RankOfPID(pid)
	if err := l.privileges.drop(); err != nil {
		l.ui.Debug("privileges stay: " + failure.FirstLine(err))
	}
	return rank != nil && l.o.Filter.HasRank(int64(*rank))
}

// conclude notes the end of a recording. Its process waits again if it has executed another program.
func (l *launched) conclude(g *guest) {
	if l.guests[g.pid] != g {
		return // it was given up
	}
	delete(l.guests, g.pid)
	if g.phase.detached {
		l.released[g.identity] = true
	}
	waiting := append(g.held, l.next...)
	l.next = nil
	for _, w := range waiting {
		l.take(w)
	}
}

// close ends the window.
func (l *launched) close(why string) {
	if l.over {
		return
	}
	l.over = true
	l.endNS = boottimeNS()
	if why == tracedb.EndElapsed {
		l.endNS = l.startNS + uint64(l.o.Duration)
	}
	l.decided.Store(&collector.Ending{Reason: why, WindowEndNS: l.endNS})
	l.noteEarly(why)
	l.endWindow()
}

// endWithProgram ends the recordings of processes that go on without the program that has started them.
func (l *launched) endWithProgram() {
	l.ended = true
	for _, g := range l.guests {
		if g.pid != l.child.PID && g.identity.lives() {
			l.close(tracedb.EndInterrupted)
			return
		}
	}
	l.over = true
}

// look ends the window before its time, and gives up on processes that make a thread of the tool hang.
func (l *launched) look() {
	switch {
	case l.isOpen() && l.isFull():
		l.close(tracedb.EndSizeLimit)
	case l.o.Flight != nil && l.o.Flight.IsDone():
		l.close(endSpent)
	}
	for pid, g := range l.guests {
		if g.hangs() {
			l.close("a thread of this tool hangs in the memory of one of them")
		}
		if f := g.stall(watchdog.Limit + stallGrace); f != nil {
			g.abandon()
			g.fail(tracedb.OutcomeFailed, f)
			g.proceed()
			delete(l.guests, pid)
		}
	}
}

func (l *launched) report(f *failure.Error) {
	l.ui.Failed(f)
	l.result.Failures = append(l.result.Failures, f)
}

func (l *launched) isOpen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.db != nil
}

// open makes the trace, when the first process is about to be attached to. A flight recorder makes its own.
func (l *launched) open() error {
	if l.o.Flight != nil {
		return nil
	}
	l.opening.Do(func() {
		db, err := tracedb.Make(l.Place)
		if err == nil {
			err = testpoint.Pass(testpoint.Created)
		}
		if err == nil && l.Place.Extends && l.o.MaxSizeBytes > 0 && db.SizeBytes() > l.o.MaxSizeBytes {
			err = fmt.Errorf("%s: %w", l.Place.Path, failure.ErrFull)
		}
		if err != nil && db != nil {
			err = errors.Join(err, db.Discard())
		} else if err == nil {
			l.mu.Lock()
			l.db = db
			l.mu.Unlock()
		}
		l.openErr = err
	})
	return l.openErr
}
