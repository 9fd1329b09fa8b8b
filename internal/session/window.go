package session

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/resident"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/failure"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/target"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// declareWindow begins the window that the trace declares, at the time at which the hooks
// became active, and returns when it ends. A machine that is busy may delay the detach:
// that makes the recording longer, but not the window.
func (r *recording) declareWindow() (deadline time.Time) {
	if r.o.Duration <= 0 {
		return time.Time{}
	}
	nowNS := boottimeNS()
	r.windowEndNS = soundArming(r.control.Snapshot().ArmedNS, nowNS) + uint64(r.o.Duration)
	return time.Now().Add(time.Duration(r.windowEndNS) - time.Duration(nowNS))
}

// mostArming is longer than an attach that succeeds can last.
const mostArming = time.Minute

// soundArming is when the hooks became active, as far as that can be believed.
func soundArming(armedNS, nowNS uint64) uint64 {
	if armedNS > nowNS || nowNS-armedNS > uint64(mostArming) {
		return nowNS
	}
	return armedNS
}

// timerUntil fires at the deadline; never, if that is zero.
func timerUntil(deadline time.Time) (<-chan time.Time, func()) {
	if deadline.IsZero() {
		return nil, func() {}
	}
	timer := time.NewTimer(time.Until(deadline))
	return timer.C, func() { timer.Stop() }
}

// ending is what the trace says of a session that we end: why, and the declared window's end.
func (r *recording) ending(why string) collector.Ending {
	if r.common != nil {
		if e := r.common(); e.WindowEndNS != 0 {
			return e
		}
	}
	nowNS := boottimeNS()
	if r.windowEndNS != 0 && nowNS > r.windowEndNS {
		nowNS = r.windowEndNS
	}
	return collector.Ending{Reason: why, WindowEndNS: nowNS}
}

// noteEarly notes why the recording ended before it was meant to.
func (r *recording) noteEarly(why string) {
	switch why {
	case tracedb.EndElapsed:
		return
	case tracedb.EndInterrupted, tracedb.EndRequested: // without a duration that is how it ends
		if r.o.Duration > 0 {
			r.early = why
		}
	case "":
		if !r.isGone() {
			r.early = resident.EndText(r.ended)
		}
	default:
		r.early = why
		r.ui.Warn("the recording ended early: " + why)
	}
}

// noteLosses warns of what is missing in the trace: -q and scripts have no summary to tell.
func (r *recording) noteLosses(result collector.Result) {
	missing := result.Missing()
	if missing == 0 {
		return
	}
	r.missing += missing
	var causes []string
	advice := ""
	for _, l := range result.Losses {
		if l.Records > 0 {
			causes = append(causes, l.Cause)
		}
		if l.Cause == collector.CauseRingFull {
			advice = "; a larger --buffer-size keeps more, --buffer-policy lossless all"
		}
	}
	if len(causes) == 0 {
		causes = []string{"dispatches that no record accounts for"}
	}
	r.ui.Warn(fmt.Sprintf("the trace is not complete: %s lost (%s)%s", humanize.Things(int64(missing), "record"), strings.Join(causes, "; "), advice))
}

// A brokenTrace is a trace whose writing has failed while a session was recorded.
type brokenTrace struct {
	session *tracedb.Session
	taken   uint64 // records, from the ring
	err     error
}

// describeBroken has the trace say how the session ended, and what is missing. It is
// called after the detach.
func (r *recording) describeBroken() {
	if r.broken == nil || r.db.Failure() == nil {
		return
	}
	s := r.control.Snapshot()
	end := tracedb.End{Reason: tracedb.EndWriteFailed, ArmedNS: s.ArmedNS, DetachedNS: s.DetachedNS}
	missing := tracedb.Loss{Cause: tracedb.CauseWriteFailed, Records: r.broken.session.Unwritten(), UntilNS: s.DetachedNS}
	if errors.Is(r.broken.err, tracedb.ErrNoSpace) {
		end.Reason, missing.Cause = tracedb.EndDiskFull, tracedb.CauseDiskFull
	}
	if written := r.control.Counters().Records; !r.lostRecorderLock() && written > r.broken.taken {
		missing.Records += written - r.broken.taken
	}
	r.missing += missing.Records
	if err := r.broken.session.EndUnwritten(end, missing); err != nil {
		r.ui.Warn("the trace does not say why it ends: " + failure.FirstLine(err))
	}
	r.ui.Warn(fmt.Sprintf("%s: %s missing at the end of the trace", end.Reason, humanize.Things(int64(missing.Records), "record")))
}

// recorder is this process, as a trace names it.
func recorder() tracedb.Recorder {
	me, err := target.Self()
	if err != nil {
		return tracedb.Recorder{}
	}
	return tracedb.Recorder{PID: uint32(me.PID), StartTicks: me.StartTicks, PIDNamespace: me.PIDNamespace}
}
