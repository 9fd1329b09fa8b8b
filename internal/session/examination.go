package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/ptrace"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
)

// An examination is a diagnosis of one process under way.
type examination struct {
	approach
	d     *Diagnosis
	steps []step
	care
	resident bool
	foreseen *inject.Feasibility
	filters  error // that stand in the way
}

// care is how much of the process's time an examination takes, and of ours.
type care struct {
	readFilters bool          // stops a thread for that
	silence     time.Duration // for which a recorder is listened to that cannot be looked at
}

// further checks come behind an attach's steps: what it does next, looked at.
var further = []struct {
	name, lookedAt string
	look           func(*examination) Check
}{
	{"lock", "the socket by which tools keep away from each other", (*examination).lockCheck},
	{"resident", "its shared mappings: a payload, its state, its recorder", (*examination).residentCheck},
	{"threads", "/proc/PID/limits, its user's threads", (*examination).threadsCheck},
	{"gpu", "its descriptors: has it opened /dev/kfd?", (*examination).gpuCheck},
	{"injection", "this tool's right to ptrace; its libraries in memory, its threads' waits", (*examination).injectionCheck},
	{"seccomp", "/proc/PID/task/TID/status: the thread that would be used", (*examination).seccompCheck},
}

// run makes the steps of an attach, and goes on behind a failure where it can.
func (e *examination) run() {
	for _, s := range e.steps {
		e.note(s, e.attempt(s))
	}
	for _, f := range further {
		c := Check{Result: Skipped}
		if e.ready() {
			c = f.look(e)
		}
		e.add(c.as(ofProcess, f.name, f.lookedAt))
	}
}

// attempt makes a step, unless it needs a process and there is none.
func (e *examination) attempt(s step) error {
	if s.about == ofProcess && !e.ready() {
		return errSkipped
	}
	return s.do(&e.approach)
}

// ready: the process could be opened, so that there is something to look at.
func (e *examination) ready() bool { return e.target != nil }

// errSkipped: a step rests on one that has failed.
var errSkipped = errors.New("skipped")

// note adds what a step came to: all that is wrong with a program, not just
// what an attach would end with.
func (e *examination) note(s step, err error) {
	check := func(c Check) { e.add(c.as(ofProcess, s.name, s.lookedAt)) }
	switch {
	case err == nil:
		check(fine(s.found(&e.approach)))
	case errors.Is(err, errSkipped):
		check(Check{Result: Skipped})
	case e.facts != nil && len(e.facts.Problems) > 0:
		for _, problem := range e.facts.Problems {
			check(refusal(e.o.PID, problem))
		}
	default:
		check(refusal(e.o.PID, err))
	}
	if e.target != nil {
		e.d.Command = e.target.Comm
	}
}

func (e *examination) add(c Check) { e.d.Checks = append(e.d.Checks, c) }

func (e *examination) lockCheck() Check {
	if err := e.target.Unlocked(); err != nil {
		return refusal(e.o.PID, err)
	}
	return fine("free")
}

// residentCheck looks for a payload as an attach does (Open), and at who
// holds it.
func (e *examination) residentCheck() Check {
	c, err := resident.Open(e.target)
	if errors.Is(err, resident.ErrNone) {
		return fine("no payload: one would be loaded")
	}
	e.resident = true
	if err != nil {
		return refusal(e.o.PID, err)
	}
	defer c.Close()
	s := c.Snapshot()
	found := fmt.Sprintf("a payload, %s, after %s: it would be used", resident.StateText(s.State), humanize.Things(s.Generation, "session"))
	if holder, held := c.Holder(); held {
		switch {
		case resident.IsAliveWithin(c, e.silence)(holder):
			return refusal(e.o.PID, fmt.Errorf("%w: pid %d", ring.ErrHeld, holder.PID))
		case resident.IsForeign(holder) && e.silence < resident.HeartbeatTimeout():
			return unclear(found, fmt.Sprintf("its recorder, pid %d of another pid namespace, gives no sign of life", holder.PID),
				fmt.Sprintf("rtl-attach doctor %d takes the time to tell whether it is dead", e.o.PID))
		}
	}
	if s.State == ring.StateActive {
		return less(found, "its session has no recorder any more", "none needed: an attach ends that session first, and it ends by itself")
	}
	return fine(found)
}

// threadsCheck is about the one limit that only a clone can tell.
func (e *examination) threadsCheck() Check {
	have, limit, limited := e.target.UserThreads()
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

// gpuCheck: who has initialised the runtime has the driver open.
func (e *examination) gpuCheck() Check {
	devices, err := e.target.Devices()
	switch {
	case err != nil:
		return refusal(e.o.PID, err)
	case e.facts == nil || len(e.facts.HSA) == 0:
		return Check{Result: Skipped}
	case len(e.facts.HSA) > 1:
		return unclear(fmt.Sprintf("%d copies of libhsa-runtime64 are mapped", len(e.facts.HSA)),
			"the payload takes the one that HIP uses, and refuses where it cannot tell", "name one for the attach: --set RTL_HSA_LIBRARY=FILE")
	case devices.KFD:
		return fine("open")
	}
	return unclear("libhsa-runtime64 is mapped, /dev/kfd is not open", "hsa_init has not been called there, it seems: an attach would find no runtime to record",
		"wait until it, or a process below it, has used the GPU (rtl-attach ps lists those that have)")
}

// injectionCheck goes as far as an injection goes before it stops a thread.
func (e *examination) injectionCheck() Check {
	if e.resident {
		return fine("none needed: nothing would be paused")
	}
	if e.facts == nil || len(e.facts.Problems) > 0 {
		return Check{Result: Skipped}
	}
	if err := mayTrace(); err != nil {
		return fails(failure.NotPermitted, "the seccomp filter of this tool's own container refuses ptrace: "+err.Error(), noPtraceFix)
	}
	tracer := ptrace.NewTracer()
	defer tracer.Close()
	var err error
	e.foreseen, err = inject.DryRun(e.target, tracer, e.readFilters)
	if err != nil && e.foreseen == nil {
		return refusal(e.o.PID, err)
	}
	if err != nil {
		e.filters = err
	}
	if !e.foreseen.Waiting {
		return less(fmt.Sprintf("%s to be tried, none in a futex wait without time-out", humanize.Things(e.foreseen.Threads, "thread")),
			"each is in another wait or busy: the one that is used is held a little longer", "none needed")
	}
	return fine("a thread waits for a futex, without time-out: it would be paused twice, for some tens of microseconds")
}

// seccompCheck judges the filters of the thread that would be used first.
func (e *examination) seccompCheck() Check {
	switch {
	case e.foreseen == nil:
		return Check{Result: Skipped}
	case e.filters != nil:
		return refusal(e.o.PID, e.filters)
	case e.foreseen.Filters == 0:
		return fine("no filters")
	case e.foreseen.Read:
		return fine(fmt.Sprintf("thread %d has filters: they let everything through that is needed", e.foreseen.Filters))
	}
	fix := fmt.Sprintf("rtl-attach doctor --read-filters %d (stops one thread for some tens of microseconds)", e.o.PID)
	if e.readFilters {
		fix = "run this again: no thread stayed in its wait to be read"
	}
	return unclear(fmt.Sprintf("thread %d has filters", e.foreseen.Filters),
		"what its seccomp filters let through can be read only in a stop of the thread; an attach reads them so, and refuses rather than risk anything", fix)
}
