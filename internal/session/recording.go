package session

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/flight"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// recording is one run of Record. Its goroutine owns the fields, unless a comment says
// otherwise.
type recording struct {
	preflight.Preflight
	o    Options
	ui   Observer
	skip <-chan struct{} // closed: do not wait for kernels still running

	watch exitWatch
	link  link
	phase phase
	trace trace
	tally tally

	lock      *target.Lock // keeps other tools away
	tracer    *ptrace.Tracer
	stacks    *stackChecker
	pauses    []tracedb.Pause // by injections, not in the trace yet
	meter     *meter
	rates     *rates // nil: not measured
	observers *observers
	observed  []*observation // not finished
	taken     func() uint64  // see (*drain).taken; nil: there is no drain
	rank      *int           // in the target's environment; nil: none
	joined    bool           // the recording of other processes had begun
	dropped   bool           // this recording has dropped the privileges
	looked    func()         // called before the target is touched; nil: do not watch for late workers
	flight    *flight.Group  // nil: the records go into the trace at once
	reading   func()         // called when the records of a session are read; nil: nobody waits for that
	watcher   *discover.WorkerWatcher

	declared   declaredWindow
	privileges *privileges    // shared by all recordings
	finished   chan struct{}  // closed when the recording is over
	background sync.WaitGroup // goroutines that use the mappings which release unmaps
}

// phase is the progress of a recording. The recording's goroutine owns it.
type phase struct {
	attached bool // a session is active in the target
	detached bool // confirmed: the target's state does not matter any more
	entered  bool // a thread was stopped for the detach
}

// tally sums up the sessions of a recording. The recording's goroutine owns it until the
// recording is over.
type tally struct {
	timed   uint64 // dispatches, and records of other kinds, with times
	noTimes uint64 // dispatches without times
	left    uint64 // dispatches that the filter left out
	missing uint64 // see Outcome
	without uint64 // see Outcome
	ended   ring.End
	early   string // see Outcome
}

// newRecording returns a recording that has not begun. The caller must call release.
func newRecording(o Options, skip <-chan struct{}, ui Observer, rights *privileges) *recording {
	return &recording{
		Preflight: preflight.New(o.Request), o: o, ui: ui, skip: skip, privileges: rights, meter: rights.meter, observers: rights.observers, tracer: ptrace.NewTracer(),
		watch: exitWatch{gone: make(chan struct{})}, finished: make(chan struct{}),
	}
}

// look does everything that is possible before the target is touched.
func (r *recording) look() error {
	if err := r.hold(r.Check); err != nil {
		return err
	}
	r.ui.Preflight(fmt.Sprintf("pid %d (%s), %s, may trace, %s",
		r.Facts.PID, r.Facts.Comm, humanize.Things(r.Facts.Threads, "thread"), strings.Join(discover.ROCmVersions(r.Facts.HSA), ", ")))
	r.rank = discover.RankOf(r.Target)
	if r.looked != nil {
		r.looked()
	}
	if err := testpoint.Pass(testpoint.Looked); err != nil {
		return err
	}
	return r.createTrace()
}

// hold makes the checks, and takes the lock that keeps other tools away from the target.
func (r *recording) hold(check func() error) error {
	if err := check(); err != nil {
		return err
	}
	r.watch.target = r.Target
	r.background.Go(func() { r.watch.run(r.finished) })
	var err error
	if r.lock, err = r.Target.Lock(); err != nil {
		return err
	}
	r.stacks = &stackChecker{target: r.Target, tracer: r.tracer, meter: r.meter}
	r.measureRates()
	return nil
}

// hanging returns how long a thread of this recording has been in one call into the target.
func (r *recording) hanging() time.Duration {
	return max(target.Stalled(r.o.PID).Time, r.tracer.Busy())
}

// stalled returns a failure once a thread of this recording hangs.
func (r *recording) stalled() *failure.Error {
	if r.hanging() > watchdog.Limit {
		return watchdog.Failure(r.o.PID)
	}
	return nil
}

// tracked returns the target as the watcher of late workers needs it.
func (r *recording) tracked(c discover.Process) discover.Tracked {
	c.StartTicks, c.Command = r.Target.StartTicks, r.Facts.Comm
	return discover.Tracked{Process: c, Rank: r.rank}
}

// release releases everything that refers to the target, and ends the recording's goroutines.
func (r *recording) release() {
	close(r.finished)
	r.background.Wait()
	r.link.release()
	r.tracer.Close()
	if r.lock != nil {
		r.lock.Release()
	}
	r.Preflight.Close()
}
