// Package session tells the story of a recording: look, attach, collect,
// detach, summarise. It alone knows cause and fix of what can go wrong
// (failure.go), and undoes in reverse what it did.
package session

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/discover"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/pausemeter"
	"github.com/rtl-attach/rtl-attach/internal/preflight"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/sanitize"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// exitPoll bounds how long the end of a recording waits for the watcher.
const exitPoll = 50 * time.Millisecond

// An Outcome is what a recording came to.
type Outcome struct {
	Path    string // of the trace; empty: none was made
	Code    failure.ExitCode
	NoTimes uint64 // dispatches that were seen and have none
	Missing uint64 // records that are lost
	Early   string // why the recording ended before it was meant to; "": it did not
}

// Strict returns the exit code for those who want no trace that is not whole.
func (o Outcome) Strict() failure.ExitCode {
	switch {
	case o.Code != failure.OK:
		return o.Code
	case o.Missing > 0:
		return failure.RecordsMissing
	case o.Early != "":
		return failure.EndedEarly
	}
	return failure.OK
}

// A recording is one run of Record.
type recording struct {
	preflight.Preflight
	o    Options
	ui   Observer
	skip <-chan struct{} // closed: do not wait for kernels still running

	lock       *target.Lock
	tracer     *ptrace.Tracer
	stacks     *stackChecker
	control    *ring.Control
	held       *ring.Lock
	gone       chan struct{} // closed when the target has exited
	executed   atomic.Bool   // what is gone is its program: the process runs another one
	finished   chan struct{} // closed when the recording is over
	privileges *privileges
	meter      *meter
	dropped    bool           // we need none now
	background sync.WaitGroup // what uses the mappings that release takes away
	unattended atomic.Bool    // no heartbeat any more: nobody takes its records

	db       *tracedb.DB
	guard    tracedb.Guard
	empty    atomic.Bool // the trace was made by us, and nothing is in it yet
	pauses   []tracedb.Pause
	attached bool          // a session is active in the target
	detached bool          // confirmed: what becomes of the target now is not our concern
	entered  bool          // a thread was stopped for the detach
	taken    func() uint64 // see (*drain).taken; nil: nobody drains
	timed    uint64
	noTimes  uint64 // dispatches that were seen and have none
	ended    ring.End
	missing  uint64 // records that are lost
	early    string // see Outcome
	broken   *brokenTrace

	windowEndNS uint64                  // of the declared window; 0: not known yet
	common      func() collector.Ending // of the window of several; nil: there is none

	rank    *int                    // nil: it shows none
	looked  func()                  // called before the target is touched; nil: nobody looks out for others
	watcher *discover.WorkerWatcher // nil likewise
}

// Record makes one trace of one process. ctx done ends the window early; skip
// closed, too, ends the drain. Errors are *Failure.
func Record(ctx context.Context, o Options, skip <-chan struct{}, ui Observer) (Outcome, error) {
	rights := newPrivileges()
	defer rights.meter.close()
	return newRecording(o, skip, ui, rights).record(ctx)
}

func (r *recording) record(ctx context.Context) (Outcome, error) {
	outcome, err := watchdog.Watch(r.stalled, func() (Outcome, error) { return r.run(ctx) })
	if errors.Is(err, watchdog.ErrStalled) && r.empty.Load() {
		_ = os.Remove(r.Place.Path)
		_ = os.Remove(r.Place.Path + "-journal")
	}
	return outcome, err
}

func newRecording(o Options, skip <-chan struct{}, ui Observer, rights *privileges) *recording {
	return &recording{
		Preflight: preflight.New(o.Request), o: o, ui: ui, skip: skip, privileges: rights, meter: rights.meter, tracer: ptrace.NewTracer(),
		gone: make(chan struct{}), finished: make(chan struct{}),
	}
}

func (r *recording) run(ctx context.Context) (Outcome, error) {
	defer r.release()
	if err := r.look(); err != nil {
		return Outcome{}, failure.Explain("trace", r.o.PID, err, failure.Untouched)
	}
	if err := r.attach(ctx); err != nil {
		if r.control != nil {
			r.describeGrace()
		}
		return Outcome{}, failure.Explain("attach to", r.o.PID, errors.Join(err, r.discard()), r.leftAs())
	}
	r.empty.Store(false)
	r.describeAttach()
	if r.watcher != nil {
		r.watcher.Begin()
	}
	collectErr := testpoint.Pass(testpoint.Attached)
	if collectErr == nil {
		collectErr = r.collectAll(ctx)
	}
	r.restorePrivileges()
	detachErr := r.detach()
	r.describeBroken()
	traceErr := errors.Join(collectErr, r.errIfTakenOver(), r.noteLateWorkers(), r.finishTrace())
	switch {
	case traceErr != nil && detachErr == nil:
		return Outcome{Path: r.db.Path(), Code: failure.Failed}, r.traceFailure(traceErr)
	case detachErr != nil:
		if traceErr != nil {
			r.ui.Warn(r.traceFailure(traceErr).What)
		}
		return Outcome{Path: r.db.Path(), Code: failure.Remains}, r.remainsFailure(detachErr)
	}
	return Outcome{Path: r.db.Path(), Code: r.code(), NoTimes: r.noTimes, Missing: r.missing, Early: r.early}, nil
}

// look does everything that can be done before the target is touched.
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

// hold makes the checks, and locks other tools out of the target from then on.
func (r *recording) hold(check func() error) error {
	if err := check(); err != nil {
		return err
	}
	r.background.Go(r.watchExit)
	var err error
	if r.lock, err = r.Target.Lock(); err != nil {
		return err
	}
	r.stacks = &stackChecker{target: r.Target, tracer: r.tracer, meter: r.meter}
	return nil
}

func (r *recording) createTrace() (err error) {
	if r.db, err = tracedb.Make(r.Place); err != nil {
		return err
	}
	r.empty.Store(!r.Place.Extends)
	if r.Place.Extends && r.isFull() {
		return errors.Join(fmt.Errorf("%s: %w", r.Place.Path, failure.ErrFull), r.discard())
	}
	if err := testpoint.Pass(testpoint.Created); err != nil {
		return errors.Join(err, r.discard())
	}
	return nil
}

// watchExit ends with the process, or with the recording: release closes the
// pidfd. A process that executes another program is another one.
func (r *recording) watchExit() {
	for !r.Target.WaitExit(exitPoll) {
		if errors.Is(r.Target.CheckIdentity(), target.ErrExec) {
			r.executed.Store(true)
			break
		}
		select {
		case <-r.finished:
			return
		default:
		}
	}
	close(r.gone)
}

// hanging is how long a thread of this recording's has been.
func (r *recording) hanging() time.Duration {
	return max(target.Stalled(r.o.PID).Time, r.tracer.Busy())
}

func (r *recording) stalled() *failure.Error {
	if r.hanging() > watchdog.Limit {
		return watchdog.Failure(r.o.PID)
	}
	return nil
}

func (r *recording) isGone() bool {
	select {
	case <-r.gone:
		return true
	default:
		return !r.Target.Alive()
	}
}

func (r *recording) describeAttach() {
	var own pausemeter.Sum
	threads := map[uint32]bool{}
	for _, p := range append(slices.Clone(r.pauses), r.stacks.stops...) {
		own.Add(time.Duration(p.DurationNS))
		threads[p.TID] = true
	}
	how := "payload loaded"
	if len(r.pauses) == 0 {
		how = "resident payload re-attached"
	}
	r.ui.Attached(how, len(threads), r.measurePauses(own).Total)
	r.describeGrace()
}

func (r *recording) describeGrace() {
	c := r.control.Counters()
	r.ui.Debug(fmt.Sprintf("grace: %s looked at, %s more than once, %s stopped, %s",
		humanize.Things(c.GraceThreads, "thread"), humanize.Count(c.GraceWaited), humanize.Count(len(r.stacks.stops)), humanize.Duration(time.Duration(c.GraceNS))))
}

// discard takes back a trace file that has nothing in it; one that was to be
// extended stays as it was.
func (r *recording) discard() error {
	r.empty.Store(false)
	return r.db.Discard()
}

// leftAs says how the target is after an attach that failed.
func (r *recording) leftAs() string {
	if r.isGone() || errors.Is(r.Target.CheckIdentity(), target.ErrGone) {
		return failure.Gone
	}
	c, err := resident.Open(r.Target)
	if _, orphaned := r.orphanEntry(); err != nil && orphaned {
		return failure.Restored + ", with the payload loaded and never entered"
	}
	if err != nil {
		return failure.Restored
	}
	defer c.Close()
	switch state := c.Snapshot().State; state {
	case ring.StateIdle, ring.StateDormant:
		return failure.Restored + ", with the payload loaded and asleep"
	default:
		return "the payload is " + resident.StateText(state) + "; without a recorder it detaches by itself within seconds"
	}
}

func (r *recording) tracked(c discover.Process) discover.Tracked {
	c.StartTicks, c.Command = r.Target.StartTicks, r.Facts.Comm
	return discover.Tracked{Process: c, Rank: r.rank}
}

// noteLateWorkers tells the trace who was not recorded.
func (r *recording) noteLateWorkers() error {
	if r.watcher == nil {
		return nil
	}
	var targets []tracedb.Target
	for _, n := range r.watcher.End(watchdog.Hanging() <= watchdog.Limit) {
		targets = append(targets, n.Target())
	}
	return r.db.Targets(targets)
}

func (r *recording) finishTrace() error {
	return errors.Join(r.db.Close(), testpoint.Pass(testpoint.Finished))
}

func (r *recording) code() failure.ExitCode {
	switch {
	case r.isGone() && !r.detached, r.ended == ring.EndExit:
		return failure.TargetExited
	case r.timed == 0:
		return failure.NothingSeen
	}
	return failure.OK
}

func (r *recording) traceFailure(err error) *failure.Error {
	f := failure.Explain("record", r.o.PID, err, "detached")
	f.What = "the trace is not complete: " + failure.FirstLine(err)
	return f
}

func (r *recording) remainsFailure(err error) *failure.Error {
	f := failure.Explain("detach from", r.o.PID, err, "still attached")
	f.What, f.Code = fmt.Sprintf("could not detach from pid %d: %v", r.o.PID, failure.FirstLine(err)), failure.Remains
	f.Fix = fmt.Sprintf("run `rtl-attach detach %d`; without a recorder the payload detaches by itself within seconds", r.o.PID)
	if stat, err := r.Target.ThreadStat(r.o.PID); err == nil && stat.State == 'T' {
		f.Cause, f.Fix = "it is stopped by a job-control signal", "resume it (kill -CONT): its payload then detaches by itself within seconds"
	}
	return f
}

func (r *recording) release() {
	close(r.finished)
	r.background.Wait()
	if r.held != nil {
		r.held.Release()
	}
	if r.control != nil {
		_ = r.control.Close()
	}
	r.tracer.Close()
	if r.lock != nil {
		r.lock.Release()
	}
	r.Preflight.Close()
}

// info is what the trace says of this session.
func (r *recording) info(s ring.Snapshot) tracedb.SessionInfo {
	host, _ := os.Hostname()
	return tracedb.SessionInfo{
		PID:         uint32(r.o.PID),
		StartTicks:  r.Target.StartTicks,
		Command:     sanitize.Text(r.Facts.Comm),
		Rank:        r.rank,
		Host:        host,
		ToolVersion: r.o.Version,
		BuildID:     s.BuildID,
		Generation:  s.Generation,
		ArmedNS:     soundArming(s.ArmedNS, boottimeNS()),
		Recorder:    recorder(),
		Guard:       &r.guard,
		ThreadName:  func(tid uint32) string { return sanitize.Text(r.Target.ThreadName(int(tid))) },
	}
}

func (r *recording) noteBuild(s ring.Snapshot) {
	if string(s.BuildID) != string(r.Build) {
		r.ui.Warn(fmt.Sprintf("another build of the payload is resident (%s, this tool carries %s): its ABI matches, it is used",
			hex.EncodeToString(s.BuildID), hex.EncodeToString(r.Build)))
	}
}

func (r *recording) notePauses(rep *inject.Report, purpose string) {
	if rep == nil {
		return
	}
	for _, p := range rep.Pauses {
		r.pauses = append(r.pauses, tracedb.Pause{
			TID: uint32(p.TID), StartNS: boottimeNS() - uint64(time.Since(p.Began)), DurationNS: uint64(p.Time),
			Purpose: purpose + ": " + p.Stop,
		})
		r.ui.Debug(fmt.Sprintf("stopped thread %d for %s (%s: %s)", p.TID, humanize.Duration(p.Time), purpose, p.Stop))
	}
	if rep.Reclaimed > 0 {
		r.ui.Debug("freed " + humanize.Things(rep.Reclaimed, "mapping") + " that dead tools had left")
	}
	r.ui.Debug(fmt.Sprintf("%s: rung %q, %s in all", purpose, rep.Rung, humanize.Duration(rep.Elapsed)))
}

// ownTID is what the target itself calls a thread, as its dispatches do.
func (r *recording) ownTID(tid uint32) uint32 {
	if !r.Target.SharesPIDs() {
		if status, err := r.Target.ThreadStatus(int(tid)); err == nil && len(status.NSPID) > 0 {
			return uint32(status.NSPID[len(status.NSPID)-1])
		}
	}
	return tid
}

func boottimeNS() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return uint64(t.Nano())
}
