package preflight

import (
	"errors"
	"fmt"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/resident"
)

// examination is a diagnosis of one process in progress.
type examination struct {
	Preflight
	d      *Diagnosis
	checks []check
	limits
	resident    bool
	feasibility *inject.Feasibility
	filters     error // seccomp filters that prevent an attach
}

// limits restrict an examination.
type limits struct {
	readFilters bool          // it may stop a thread to read the thread's seccomp filters
	silence     time.Duration // how long to wait for a heartbeat of a recorder in another pid namespace
}

// extraChecks follow the checks of an attach, and predict its next steps.
var extraChecks = []struct {
	name, lookedAt string
	look           func(*examination) CheckResult
}{
	{"lock", "the socket by which tools keep away from each other", (*examination).lockCheck},
	{"resident", "its shared mappings: a payload, its state, its recorder", (*examination).residentCheck},
	{"threads", "/proc/PID/limits, its user's threads", (*examination).threadsCheck},
	{"gpu", "its descriptors: has it opened /dev/kfd?", (*examination).gpuCheck},
	{"injection", "this tool's right to ptrace; its libraries in memory, its threads' waits", (*examination).injectionCheck},
	{"seccomp", "/proc/PID/task/TID/status: the thread that would be used", (*examination).seccompCheck},
}

// run makes the checks of an attach, and continues after a failure if it can.
func (e *examination) run() {
	for _, c := range e.checks {
		e.note(c, e.attempt(c))
	}
	for _, f := range extraChecks {
		c := CheckResult{Result: Skipped}
		if e.ready() {
			c = f.look(e)
		}
		e.add(c.as(ofProcess, f.name, f.lookedAt))
	}
}

// attempt makes a check, unless it needs a process and there is none.
func (e *examination) attempt(c check) error {
	if c.about == ofProcess && !e.ready() {
		return errSkipped
	}
	return c.do(&e.Preflight)
}

// ready reports whether the process could be opened.
func (e *examination) ready() bool { return e.Target != nil }

// errSkipped says that a check depends on one that has failed.
var errSkipped = errors.New("skipped")

// note adds the result of a check: all problems of a program, not only the first, which an
// attach would report.
func (e *examination) note(c check, err error) {
	add := func(r CheckResult) { e.add(r.as(ofProcess, c.name, c.lookedAt)) }
	switch {
	case err == nil:
		add(fine(c.found(&e.Preflight)))
	case errors.Is(err, errSkipped):
		add(CheckResult{Result: Skipped})
	case e.Facts != nil && len(e.Facts.Problems) > 0:
		for _, problem := range e.Facts.Problems {
			add(refusal(e.request.PID, problem))
		}
	default:
		add(refusal(e.request.PID, err))
	}
	if e.Target != nil {
		e.d.Command = e.Target.Comm
	}
}

func (e *examination) add(c CheckResult) { e.d.Checks = append(e.d.Checks, c) }

func (e *examination) lockCheck() CheckResult {
	if err := e.Target.Unlocked(); err != nil {
		return refusal(e.request.PID, err)
	}
	return fine("free")
}

// residentCheck looks for a payload as an attach does, and for the recorder that holds it.
func (e *examination) residentCheck() CheckResult {
	c, err := resident.Open(e.Target)
	if errors.Is(err, resident.ErrNone) {
		return fine("no payload: one would be loaded")
	}
	e.resident = true
	if err != nil {
		return refusal(e.request.PID, err)
	}
	defer c.Close()
	s := c.Snapshot()
	found := fmt.Sprintf("a payload, %s, after %s: it would be used", resident.StateText(s.State), humanize.Things(s.Generation, "session"))
	if holder, held := c.Holder(); held {
		switch {
		case resident.IsAliveWithin(c, e.silence)(holder):
			return refusal(e.request.PID, resident.HeldBy(e.Target, holder))
		case resident.IsForeign(holder) && e.silence < resident.HeartbeatTimeout():
			return unclear(found, fmt.Sprintf("its recorder, pid %d of another pid namespace, gives no sign of life", holder.PID),
				fmt.Sprintf("rtl-attach doctor %d takes the time to tell whether it is dead", e.request.PID))
		}
	}
	if s.State.IsRecording() {
		return less(found, "its session has no recorder any more", "none needed: an attach ends that session first, and it ends by itself")
	}
	return fine(found)
}

// threadsCheck checks the per-user limit of threads, as far as possible without a clone.
func (e *examination) threadsCheck() CheckResult {
	have, limit, limited := e.Target.UserThreads()
	switch {
	case e.resident:
		return fine("none needed")
	case !limited:
		return fine("no limit by user")
	case have < limit:
		return fine(fmt.Sprintf("%s of %s that its user may have", humanize.Count(have), humanize.Count(limit)))
	}
	return unclear(fmt.Sprintf("%s, its user may have %s", humanize.Count(have), humanize.Count(limit)), "RLIMIT_NPROC is reached, as far as can be seen from here: the clone in the target fails then",
		"allow it some more threads (prlimit --nproc), then run this again")
}

// gpuCheck checks for the open driver, which a process with an initialised runtime has.
func (e *examination) gpuCheck() CheckResult {
	devices, err := e.Target.Devices()
	switch {
	case err != nil:
		return refusal(e.request.PID, err)
	case e.Facts == nil || len(e.Facts.HSA) == 0:
		return CheckResult{Result: Skipped}
	case len(e.Facts.HSA) > 1:
		return unclear(fmt.Sprintf("%d copies of libhsa-runtime64 are mapped", len(e.Facts.HSA)),
			"the payload takes the one that HIP uses, and refuses where it cannot tell", "name one for the attach: --set RTL_HSA_LIBRARY=FILE")
	case devices.KFD:
		return fine("open")
	}
	return unclear("libhsa-runtime64 is mapped, /dev/kfd is not open", "hsa_init has not been called there, it seems: an attach would find no runtime to record",
		"wait until it, or a process below it, has used the GPU (rtl-attach ps lists those that have)")
}

// injectionCheck performs the steps of an injection before its first stop.
func (e *examination) injectionCheck() CheckResult {
	if e.resident {
		return fine("none needed: nothing would be paused")
	}
	if e.Facts == nil || len(e.Facts.Problems) > 0 {
		return CheckResult{Result: Skipped}
	}
	if err := mayTrace(); err != nil {
		return fails(failure.NotPermitted, "the seccomp filter of this tool's own container refuses ptrace: "+err.Error(), noPtraceFix)
	}
	tracer := ptrace.NewTracer()
	defer tracer.Close()
	var err error
	e.feasibility, err = inject.DryRun(e.Target, tracer, e.readFilters)
	if err != nil && e.feasibility == nil {
		return refusal(e.request.PID, err)
	}
	if err != nil {
		e.filters = err
	}
	if !e.feasibility.Waiting {
		return less(fmt.Sprintf("%s to be tried, none in a futex wait without time-out", humanize.Things(e.feasibility.Threads, "thread")),
			"each is in another wait or busy: the one that is used is held a little longer", "none needed")
	}
	return fine("a thread waits for a futex, without time-out: it would be paused twice; medians measured elsewhere: 0.07 to 0.41 ms in all, 0.55 ms on a full machine")
}

// seccompCheck judges the filters of the thread that an injection would use first.
func (e *examination) seccompCheck() CheckResult {
	switch {
	case e.feasibility == nil:
		return CheckResult{Result: Skipped}
	case e.filters != nil:
		return refusal(e.request.PID, e.filters)
	case e.feasibility.Filters == 0:
		return fine("no filters")
	case e.feasibility.Read:
		return fine(fmt.Sprintf("thread %d has filters: they let everything through that is needed", e.feasibility.Filters))
	}
	fix := fmt.Sprintf("rtl-attach doctor --read-filters %d (stops one thread as a rule for less than half a millisecond)", e.request.PID)
	if e.readFilters {
		fix = "run this again: no thread stayed in its wait to be read"
	}
	return unclear(fmt.Sprintf("thread %d has filters", e.feasibility.Filters),
		"what its seccomp filters let through can be read only in a stop of the thread; an attach reads them so, and refuses rather than risk anything", fix)
}
