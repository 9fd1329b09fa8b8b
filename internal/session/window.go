package session

import (
	"fmt"
	"strings"
	"time"

	"github.com/rtl-attach/rtl-attach/internal/collector"
	"github.com/rtl-attach/rtl-attach/internal/humanize"
	"github.com/rtl-attach/rtl-attach/internal/resident"
	"github.com/rtl-attach/rtl-attach/tracedb"
)

// declareWindow begins the declared window at the time at which the hooks became active, and
// returns its end. A busy machine may delay the detach: that makes the recording longer, but
// not the window.
func (r *recording) declareWindow() (deadline time.Time) {
	if r.o.Duration <= 0 {
		return time.Time{}
	}
	nowNS := boottimeNS()
	beginsNS := r.declared.beginsNS
	if len(r.o.Schedule) == 0 {
		beginsNS = soundArming(r.link.control.Snapshot().ArmedNS, nowNS)
	}
	r.declared.endNS = beginsNS + uint64(r.o.Duration)
	return time.Now().Add(time.Duration(r.declared.endNS) - time.Duration(nowNS))
}

// declaredWindow is the window that the trace declares.
type declaredWindow struct {
	beginsNS uint64                  // of the first window of a schedule
	endNS    uint64                  // 0: not known yet
	common   func() collector.Ending // the end of the window common to several recordings; nil: none
	begun    func() uint64           // its begin; 0: it has not begun; nil: none
}

// mostArming is longer than any successful attach.
const mostArming = time.Minute

// soundArming returns the time at which the hooks became active, limited to plausible values.
func soundArming(armedNS, nowNS uint64) uint64 {
	if armedNS > nowNS || nowNS-armedNS > uint64(mostArming) {
		return nowNS
	}
	return armedNS
}

// timerUntil returns a timer for the deadline; it never fires if the deadline is zero.
func timerUntil(deadline time.Time) (<-chan time.Time, func()) {
	if deadline.IsZero() {
		return nil, func() {}
	}
	timer := time.NewTimer(time.Until(deadline))
	return timer.C, func() { timer.Stop() }
}

// ending returns the reason and the declared window's end for a session that this tool ends.
func (r *recording) ending(why string) collector.Ending {
	if r.declared.common != nil {
		if e := r.declared.common(); e.WindowEndNS != 0 {
			return e
		}
	}
	nowNS := boottimeNS()
	if r.declared.endNS != 0 && nowNS > r.declared.endNS {
		nowNS = r.declared.endNS
	}
	return collector.Ending{Reason: why, WindowEndNS: nowNS}
}

// noteEarly notes why the recording ended early.
func (r *recording) noteEarly(why string) {
	switch why {
	case tracedb.EndElapsed:
		return
	case tracedb.EndInterrupted, tracedb.EndRequested, tracedb.EndStopped, endSpent: // the expected end of a recording without a duration
		if r.o.Duration > 0 {
			r.tally.early = why
		}
	case "":
		if !r.watch.isGone() && !r.endedBySchedule() {
			r.tally.early = resident.EndText(r.tally.ended)
		}
	default:
		r.tally.early = why
		r.ui.Warn("the recording ended early: " + why)
	}
}

// warnUnavailable returns what warns of kinds that cannot be recorded, once each. The drain's goroutine calls it.
func (r *recording) warnUnavailable() func(tracedb.Unavailable) {
	warned := map[string]bool{}
	return func(u tracedb.Unavailable) {
		if !warned[u.Kind] {
			warned[u.Kind] = true
			r.ui.Warn(fmt.Sprintf("%s cannot be recorded in this process: %s; the other kinds are recorded", u.Kind, u.Reason))
		}
	}
}

// noteLosses warns of missing records: with -q, and in scripts, there is no summary.
func (r *recording) noteLosses(result collector.Result) {
	r.tally.without = uint64(len(result.Unavailable))
	missing := result.Missing()
	if missing == 0 {
		return
	}
	r.tally.missing += missing
	if r.o.Flight != nil {
		r.ui.Debug(humanize.Things(int64(missing), "record") + " lost in the whole session; each trace says what is missing in it")
		return
	}
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
