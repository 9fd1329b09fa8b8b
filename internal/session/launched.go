package session

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/launch"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
)

// Launched is the result of the recording of a program that the tool has started.
type Launched struct {
	Outcome
	Recorded   []int            // processes
	Unrecorded []int            // processes that used a GPU while another one was recorded
	Failures   []*failure.Error // of processes that could not be recorded
}

// RecordLaunched records the processes of a program, each from before its first kernel on: one at a
// time, into one trace. It returns when the program has ended.
func RecordLaunched(o Options, c *launch.Child, ui Observer) Launched {
	l := launched{o: o, child: c, ui: ui}
	defer c.Close()
	if err := testpoint.Pass(testpoint.Launched); err != nil {
		l.fail(c.PID, err)
	}
	for !l.ended || l.guest != nil {
		l.step()
	}
	return l.result
}

type launched struct {
	o      Options
	child  *launch.Child
	ui     Observer
	guest  *guest            // the process that is recorded; nil: none
	next   []*launch.Waiting // whose turn comes once the guest's recording is complete
	began  time.Time         // of the first recording
	over   bool              // nothing more is recorded
	ended  bool              // the program has ended
	result Launched
}

// step waits for one event.
func (l *launched) step() {
	var complete, ended chan struct{}
	if l.guest != nil {
		complete = l.guest.done
	}
	if !l.ended {
		ended = l.child.Done
	}
	select {
	case w := <-l.child.Waiting:
		l.take(w)
	case <-complete:
		l.conclude()
	case <-ended:
		l.endWindow()
	}
}

// take decides on a process that waits.
func (l *launched) take(w *launch.Waiting) {
	switch {
	case l.over || l.left() < 0 || !target.Lives(w.PID, 0):
		w.Continue()
	case l.guest == nil:
		l.guest = l.record(w)
	case l.guest.pid == w.PID:
		l.guest.hold(w)
	case target.Lives(l.guest.pid, l.guest.startTicks):
		l.result.Unrecorded = append(l.result.Unrecorded, w.PID)
		w.Continue()
	default:
		l.next = append(l.next, w)
	}
}

// left returns what is left of the duration; 0: there is no limit; negative: it is over.
func (l *launched) left() time.Duration {
	if l.o.Duration == 0 || l.began.IsZero() {
		return l.o.Duration
	}
	if left := l.o.Duration - time.Since(l.began); left > 0 {
		return left
	}
	return -1
}

// conclude notes the result of a recording, and begins the next one.
func (l *launched) conclude() {
	g, waiting := l.guest, l.next
	l.guest, l.next = nil, nil
	if g.err != nil {
		g.letGo()
		l.fail(g.pid, g.err)
	} else {
		l.note(g)
		waiting = append(g.held, waiting...) // it has executed another program, if it waits
	}
	for _, w := range waiting {
		l.take(w)
	}
}

func (l *launched) fail(pid int, err error) {
	l.over = true
	l.result.Failures = append(l.result.Failures, failure.Explain("record", pid, err, failure.Restored))
}

// note adds a recording that has succeeded.
func (l *launched) note(g *guest) {
	all := &l.result
	if len(all.Recorded) > 0 {
		codes := []failure.ExitCode{all.Code, g.outcome.Code}
		g.outcome.Code = failure.CombineExitCodes(codes)
	}
	g.outcome.NoTimes += all.NoTimes
	g.outcome.Missing += all.Missing
	all.Outcome, all.Recorded = g.outcome, append(all.Recorded, g.pid)
	// The next process extends this trace.
	l.o.Output, l.o.Append, l.o.Force = strings.ReplaceAll(g.outcome.Path, "%", "%%"), true, false
	l.over = l.over || g.detached
}

// endWindow ends the recording of a process that goes on without the program that has started it.
func (l *launched) endWindow() {
	l.over, l.ended = true, true
	if l.guest != nil && l.guest.pid != l.child.PID && target.Lives(l.guest.pid, l.guest.startTicks) {
		l.guest.cancel()
	}
}

// guest is a process that is recorded from before its first kernel on.
type guest struct {
	pid        int
	startTicks uint64
	cancel     context.CancelFunc
	done       chan struct{} // closed when the recording is complete
	outcome    Outcome
	err        error
	detached   bool // the tool has ended the recording, not the process

	mu   sync.Mutex
	held []*launch.Waiting
}

func (l *launched) record(w *launch.Waiting) *guest {
	ctx, cancel := context.WithCancel(context.Background())
	g := &guest{pid: w.PID, cancel: cancel, done: make(chan struct{}), held: []*launch.Waiting{w}}
	g.startTicks, _ = target.StartTicks(w.PID) // 0: it has ended
	o := l.o
	o.PID, o.Duration = w.PID, l.left()
	if l.began.IsZero() {
		l.began = time.Now()
	}
	rights := newPrivileges()
	r := newRecording(o, nil, l.ui, rights)
	r.reading = g.letGo
	go func() {
		defer close(g.done)
		defer cancel()
		g.outcome, g.err = r.record(ctx)
		rights.meter.close()
		if g.err == nil {
			if g.detached = r.phase.detached; !g.detached {
				g.outcome.Early = "" // the process has ended, or its last runtime
			}
			g.outcome.Code = codeOfLaunched(g.outcome.Code, r.tally.timed)
		}
	}()
	return g
}

// codeOfLaunched returns the exit code of a recording that ends with its process, as it should.
func codeOfLaunched(code failure.ExitCode, timed uint64) failure.ExitCode {
	switch {
	case code != failure.TargetExited:
		return code
	case timed == 0:
		return failure.NothingSeen
	}
	return failure.OK
}

// hold keeps the process waiting until the records of its next session are read: it has shut its
// runtime down and initialized it again. The session may be active already.
func (g *guest) hold(w *launch.Waiting) {
	g.mu.Lock()
	g.held = append(g.held, w)
	g.mu.Unlock()
	if isActive(g.pid) {
		g.letGo()
	}
}

// letGo lets the process go on.
func (g *guest) letGo() {
	g.mu.Lock()
	defer g.mu.Unlock()
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
