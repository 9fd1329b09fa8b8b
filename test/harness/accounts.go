package harness

import (
	"cmp"
	"slices"

	"github.com/rtl-attach/rtl-attach/internal/session"
	"github.com/rtl-attach/rtl-attach/test/simlog"
)

// before checks the count of packets in front of a window when it opened.
func (c *Comparison) before(records []*simlog.Record, w Window) {
	var later int64
	for i, _ := slices.BinarySearchFunc(records, w.First, func(r *simlog.Record, index uint64) int { return cmp.Compare(r.Packet, index) }); i > 0; i-- {
		if int64(records[i-1].StartNS) <= w.OpenedNS {
			break
		}
		later++
	}
	c.QueuedBefore += later
	if later > w.QueuedBefore {
		c.wrong("before", "%d packets in front of window %d..%d of queue %d ran after it was opened; the trace says %d",
			later, w.First, w.End, w.Queue, w.QueuedBefore)
	}
}

// window checks that everything between its ends is accounted for, and that the payload's counts
// are correct.
func (c *Comparison) window(tr *Trace, w Window) {
	q := tr.Queues[w.Queue]
	if !w.Closed {
		if !c.Killed {
			c.wrong("open", "window of queue %+v from %d was never closed", q.Key, w.First)
		}
		return
	}
	records := c.log.Queues[q.Key]
	c.before(records, w)
	var dispatches, others, after int64
	for index := w.First; index < w.End; index++ {
		i := at(records, index)
		if i < 0 {
			c.wrong("window", "queue %+v: packet %d of window %d..%d was never executed", q.Key, index, w.First, w.End)
			continue
		}
		said := c.said[q.Key][i]
		switch {
		case said == afterDetach:
			after++
		case records[i].Kind != simlog.Kernel:
			others++
		default:
			dispatches++
			c.InWindows++
			if said == timed {
				c.Recorded++
			} else if said == unsaid && !c.unwritten(tr, w.Queue, records[i]) {
				c.missing = append(c.missing, records[i])
			}
		}
	}
	lost, kernels := w.After-after, dispatches-w.Dispatches // slots that were claimed only, and what ran in them
	if c.Lost > 0 && lost > 0 && kernels >= 0 && kernels+others-w.Others == lost {
		c.lostAfter += lost
		c.lostKernels += kernels
		dispatches, others, after = w.Dispatches, w.Others, w.After
	}
	if dispatches != w.Dispatches || others != w.Others || after != w.After {
		c.wrong("count", "queue %+v window %d..%d: %d dispatches, %d others, %d after the detach; the truth: %d, %d, %d",
			q.Key, w.First, w.End, w.Dispatches, w.Others, w.After, dispatches, others, after)
	}
}

// sessions checks the order of events in each session.
func (c *Comparison) sessions(tr *Trace) {
	sessions := map[int64]Session{}
	for _, s := range tr.Sessions {
		sessions[s.ID] = s
		if s.PID != int64(c.log.PID) {
			c.wrong("session", "of process %d, the log is of %d", s.PID, c.log.PID)
		}
		if n := len(c.active); n > 0 && c.active[n-1].DetachedNS > s.ArmedNS {
			c.wrong("session", "%+v before the end of %+v", s, c.active[n-1])
		}
		if s.ArmedNS != 0 {
			c.active = append(c.active, c.span(tr, s))
		}
		unread := s.ArmedNS == 0 && slices.ContainsFunc(tr.Losses, func(l Loss) bool { return l.Cause == session.CauseMissed })
		whole := unread || s.ArmedNS > 0 && s.ArmedNS <= s.DetachedNS && s.DetachedNS <= s.EndedNS
		if !whole && !c.Killed {
			c.wrong("session", "%+v", s)
		}
	}
	for _, w := range tr.Windows {
		s, known := sessions[tr.Queues[w.Queue].Session]
		if !known || s.DetachedNS == 0 && c.Killed {
			continue
		}
		if w.OpenedNS < s.ArmedNS || w.ClosedNS > s.DetachedNS || w.Closed && w.ClosedNS < w.OpenedNS {
			c.wrong("session", "window %+v in %+v", w, s)
		}
	}
}

// unwritten reports whether a kernel ended after the moment until which the trace of a killed recorder says to be
// complete. Its window may be in the trace before it.
func (c *Comparison) unwritten(tr *Trace, queue int64, r *simlog.Record) bool {
	for _, s := range tr.Sessions {
		if s.ID == tr.Queues[queue].Session {
			return c.unfinished(tr, queue) && int64(r.EndNS)+settleNS >= s.UntilNS
		}
	}
	return false
}

// unfinished reports whether the recorder was killed before it wrote the queue's final account.
func (c *Comparison) unfinished(tr *Trace, queue int64) bool {
	for _, s := range tr.Sessions {
		if s.ID == tr.Queues[queue].Session {
			return c.Killed && s.EndedNS == 0
		}
	}
	return false
}

// lagsBehind reports whether an account is older than the windows of its commit, as may happen.
// It counts every dispatch of the commit.
func (got Coverage) lagsBehind(rows Coverage) bool {
	return got.Windows <= rows.Windows && got.Dispatches <= rows.Dispatches && got.Timed == rows.Timed &&
		got.Untimed == rows.Untimed && got.Unexplained == 0
}

// coverage recomputes rtl_coverage from the rows.
func (c *Comparison) coverage(tr *Trace) {
	want := map[int64]*Coverage{}
	of := func(queue int64) *Coverage {
		if want[queue] == nil {
			want[queue] = &Coverage{Queue: queue}
		}
		return want[queue]
	}
	for _, d := range tr.Dispatches {
		of(d.Queue).Timed++
	}
	for _, u := range tr.Untimed {
		if u.Reason != "after-detach" {
			of(u.Queue).Untimed += int64(u.Packets)
		}
	}
	for _, w := range tr.Windows {
		cov := of(w.Queue)
		cov.Windows++
		cov.Dispatches += w.Dispatches
		cov.Others += w.Others
		cov.After += w.After
		cov.RawBefore = max(cov.RawBefore, w.RawBefore)
		if !w.Closed {
			cov.WindowsOpen++
		}
	}
	for _, got := range tr.Coverage {
		w := of(got.Queue)
		if _, known := tr.Queues[got.Queue]; !known {
			c.wrong("coverage", "of a queue that is none: %+v", got)
		}
		if w.WindowsOpen == 0 {
			w.Unexplained = w.Dispatches - w.Timed - w.Untimed - tr.filteredOf(got.Queue)
		}
		if got != *w && !(c.unfinished(tr, got.Queue) && got.lagsBehind(*w)) {
			c.wrong("coverage", "rtl_coverage %+v, its rows say %+v", got, *w)
		}
		c.unexplained += got.Unexplained
		delete(want, got.Queue)
	}
	for _, w := range want {
		if c.Killed {
			break
		}
		c.wrong("coverage", "no row in rtl_coverage for %+v", *w)
	}
}
