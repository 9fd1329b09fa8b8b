// Package session records. Record makes a trace of one process: it checks (preflight),
// attaches, collects until the window is over, detaches, and closes the trace; on a failure
// it undoes in reverse order. RecordAll does so with several processes and one common window
// (group, member). Detach ends sessions, of this tool or of another.
package session

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/flight"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/testpoint"
	"github.com/rtl-attach/rtl-attach/internal/watchdog"
)

// Outcome is the result of a recording.
type Outcome struct {
	Path    string // of the trace; empty: none was made
	Code    failure.ExitCode
	NoTimes uint64         // dispatches without times
	Left    uint64         // dispatches that the filter left out
	Missing uint64         // lost records
	Without uint64         // kinds that could not be recorded, of all processes
	Flight  *flight.Config // of a flight recorder, whose triggers have traces of their own; nil: Path is the trace
	Early   string         // why the recording ended before the user's end; "": it did not
}

// Strict returns the exit code for --strict: not OK if the trace is incomplete.
func (o Outcome) Strict() failure.ExitCode {
	switch {
	case o.Code != failure.OK:
		return o.Code
	case o.Missing > 0 || o.Without > 0:
		return failure.RecordsMissing
	case o.Early != "":
		return failure.EndedEarly
	}
	return failure.OK
}

// Record makes one trace of one process. ctx done ends the window early; skip
// closed, too, ends the drain. Errors are *failure.Error.
func Record(ctx context.Context, o Options, skip <-chan struct{}, ui Observer) (Outcome, error) {
	rights := newPrivileges(o)
	defer rights.close()
	return newRecording(o, skip, ui, rights).record(ctx)
}

func (r *recording) record(ctx context.Context) (Outcome, error) {
	outcome, err := watchdog.Watch(r.stalled, func() (Outcome, error) { return r.run(ctx) })
	if errors.Is(err, watchdog.ErrStalled) && r.trace.empty.Load() {
		_ = os.Remove(r.Place.Path)
		_ = os.Remove(r.Place.Path + "-journal")
	}
	return outcome, err
}

func (r *recording) run(ctx context.Context) (Outcome, error) {
	defer r.release()
	if r.flight == nil { // a group's members have a common one
		maker := partMaker{&r.o, r.privileges, r.ui}
		if r.flight = newFlight(r.o, flight.GroupHost{Create: maker.create, Written: maker.note}, 1); r.flight != nil {
			defer r.flight.Close()
		}
	}
	if err := r.look(); err != nil {
		return Outcome{}, failure.Explain("trace", r.o.PID, err, failure.Untouched)
	}
	r.rates.awaitBefore(ctx)
	if err := r.attach(ctx); err != nil {
		if r.link.control != nil {
			r.describeGrace()
		}
		return Outcome{}, failure.Explain("attach to", r.o.PID, errors.Join(err, r.trace.discard()), r.leftAs())
	}
	r.trace.empty.Store(false)
	r.describeAttach()
	r.rates.begin(rateDuring)
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
	traceErr := errors.Join(collectErr, r.errIfTakenOver(), r.finishObserving(), r.noteLateWorkers(), r.measureAfter(), r.finishTrace())
	switch {
	case traceErr != nil && detachErr == nil:
		return Outcome{Path: r.trace.path(), Code: failure.Failed}, r.traceFailure(traceErr)
	case detachErr != nil:
		if traceErr != nil {
			r.ui.Warn(r.traceFailure(traceErr).What)
		}
		return Outcome{Path: r.trace.path(), Code: failure.Remains}, r.remainsFailure(detachErr)
	}
	return Outcome{
		Path: r.trace.path(), Code: r.code(), Flight: r.o.Flight,
		NoTimes: r.tally.noTimes, Left: r.tally.left, Missing: r.tally.missing, Without: r.tally.without, Early: r.tally.early,
	}, nil
}

func (r *recording) code() failure.ExitCode {
	exited := r.watch.isGone() && !r.phase.detached || r.tally.ended == ring.EndExit
	switch {
	case exited && r.reading == nil: // a started program should end
		return failure.TargetExited
	case r.tally.timed == 0:
		return failure.NothingSeen
	}
	return failure.OK
}

func boottimeNS() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return uint64(t.Nano())
}
