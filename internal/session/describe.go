package session

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/inject"
	"github.com/rtl-attach/rtl-attach/internal/pausemeter"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/internal/ring"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

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
	c := r.link.control.Counters()
	r.ui.Debug(fmt.Sprintf("grace: %s looked at, %s more than once, %s stopped, %s",
		humanize.Things(c.GraceThreads, "thread"), humanize.Count(c.GraceWaited), humanize.Count(len(r.stacks.stops)), humanize.Duration(time.Duration(c.GraceNS))))
}

// leftAs describes the state of the target after a failed attach.
func (r *recording) leftAs() string {
	if r.watch.isGone() || errors.Is(r.Target.CheckIdentity(), target.ErrGone) {
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

// ownTID returns a thread's id in the target's pid namespace, as dispatch records have it.
func (r *recording) ownTID(tid uint32) uint32 {
	if !r.Target.SharesPIDs() {
		if status, err := r.Target.ThreadStatus(int(tid)); err == nil && len(status.NSPID) > 0 {
			return uint32(status.NSPID[len(status.NSPID)-1])
		}
	}
	return tid
}
